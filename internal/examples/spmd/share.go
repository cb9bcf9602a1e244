// Package spmd has what the applications that run one program on all ranks have in
// common: shares of the work, numbers that come out the same on every rank, and the
// command around it all.
package spmd

// Span is a half-open range.
type Span struct{ Lo, Hi int }

// Len is how many there are.
func (s Span) Len() int { return s.Hi - s.Lo }

// Share is the range that a rank has of n things in a row. Shares differ by one at most.
func Share(n, ranks, rank int) Span { return Span{n * rank / ranks, n * (rank + 1) / ranks} }

// Package spmd contains the code that applications with one program on all ranks share: the
// division of work, random numbers that are the same on every rank, and the command-line interface.
package spmd

// Span is a half-open range.
type Span struct{ Lo, Hi int }

// Len returns the number of elements in the span.
func (s Span) Len() int { return s.Hi - s.Lo }

// Share returns a rank's range of n elements. The sizes of the ranges differ by at most one.
func Share(n, ranks, rank int) Span { return Span{n * rank / ranks, n * (rank + 1) / ranks} }

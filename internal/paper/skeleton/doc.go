// Package skeleton has the applications of the Split-C paper as programs without values:
// they ask the other ranks for what the programs under examples ask, in the same order and
// of the same sizes, and say how much is computed in between. Package paper runs them over
// its models of communication layers, where a rank's arithmetic takes virtual time.
//
// A Rank has Split-C's operations, over a Link, which carries requests. A test of the
// module compares what each skeleton stores with what its application counts.
package skeleton

// Package skeleton has the applications of the Split-C paper as programs without values.
// They send the same requests to other ranks as the programs under examples, with the same
// sizes and in the same order. They state how much a rank computes between requests.
// Package paper runs them over its models of communication layers, where a rank's
// arithmetic takes virtual time.
//
// A Rank has Split-C's operations. Its Link carries the requests. A test of the module
// compares the stores of each skeleton with the stores that its application counts.
package skeleton

// Package cg solves a system of linear equations with a sparse symmetric positive
// definite matrix by the method of conjugate gradients, alone (Serial) or divided among
// ranks: over Split-C, as in "Split-C for the New Millennium", and over MPLite.
//
// # In parallel
//
// Each rank has neighbouring rows of the matrix and the same rows of all vectors. In each
// step the ranks need all of the search direction p, for the product of their rows with
// it, and two sums over all:
//
//  1. Each rank stores its rows of p to the same place on every other rank, and waits
//     until the rows of all others have been stored to it: a known number of bytes.
//  2. q = A p, for its own rows.
//  3. The sum of p·q over all ranks gives the step length; x and the residual r move.
//  4. The sum of r·r over all ranks tells whether to go on, and the next p.
//
// A rank cannot store the p of the next step before all have read that of this one,
// because the sums end only when all have added to them. The same holds for counting
// bytes: none of a later step can come among those of an earlier.
//
// Sums are formed in the order of ranks, so the result depends on how many there are, by
// rounding, and on nothing else.
package cg

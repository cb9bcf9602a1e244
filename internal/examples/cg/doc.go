// Package cg solves a system of linear equations with a sparse symmetric positive definite matrix
// by the method of conjugate gradients: in one process (Serial), or divided among ranks over
// Split-C, as in "Split-C for the New Millennium", or over MPLite.
//
// # In parallel
//
// Each rank has neighbouring rows of the matrix and the same rows of all vectors. In each step
// every rank needs the whole search direction p, to multiply its rows by it, and two sums over all
// ranks:
//
//  1. Each rank stores its rows of p to the same place on every other rank, and waits
//     until the rows of all others have been stored to it: a known number of bytes.
//  2. q = A p, for its own rows.
//  3. The sum of p·q over all ranks gives the step length; x and the residual r move.
//  4. The sum of r·r over all ranks tells whether to go on, and the next p.
//
// A rank cannot store the p of the next step before all ranks have read the p of this step, because
// a sum ends only when all ranks have contributed to it. For the same reason bytes of a later step
// cannot be counted for an earlier one.
//
// Sums are formed in the order of ranks. So the rounding of the result depends on the number of
// ranks, and on nothing else.
package cg

// Package cholesky factors a symmetric positive definite matrix A into L·Lᵀ with a lower triangular
// L: in one process (Matrix.Factor), or divided among ranks over Split-C (Run), as in "Split-C for
// the New Millennium".
//
// # The layout
//
// The paper decomposes its matrix of 1536 x 1536 elements "in (12x8) x (8x12) x (16x16) blocks" and
// gives no details. This package interprets the phrase as the declaration of a spread array of
// Split-C,
//
//	double A[12][8]::[8][12][16][16]
//
// whose dimensions left of the colons are spread over the processors, and whose other dimensions
// are contiguous on one processor: 12 x 8 positions, each with 8 x 12 blocks of 16 x 16 elements.
// So there are 12·8 = 96 rows of blocks and 8·12 = 96 columns, and 96·16 = 1536. Position (r, c) is
// on processor (8r + c) mod PROCS, as in Split-C, so 1, 2, 4, 8 or 16 ranks have equal numbers of
// the 96 positions. The paper does not state which blocks a position has. Here the layout is
// cyclic: block (i, j) is at position (i mod 12, j mod 8), so all ranks have work until near the
// end. Blocks above the diagonal have a place but are not used.
//
// # In parallel
//
// For each column k of blocks, from the left:
//
//  1. Who has block (k, k) factors it and stores it to who has others of the column, if it
//     has not all of them itself, as it has on 1, 2, 4 and 8 ranks.
//  2. These solve for their blocks of the column, and store them to all: one bulk store for
//     each pair of ranks.
//  3. Each rank subtracts the products of these blocks from its own right of the column.
//
// After the stores of the first step, if there are any, and after those of the second step, all
// ranks wait until all stores are complete everywhere. This wait is also a barrier, so the
// destination memory of the blocks can be reused for the column after the next one. Blocks of the
// next column may arrive while a rank is in the third step.
//
// Each element is computed by the same operations in the same order on any number of ranks, so the
// result has the same bits as that of a serial run.
package cholesky

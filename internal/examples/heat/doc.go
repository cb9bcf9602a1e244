// Package heat solves the two-dimensional heat equation on a rectangular plate: in one process
// (Serial), or divided among the ranks of a communicator (Run). Both give the same bits.
//
// The plate starts as a picture: the brighter a pixel, the hotter its cell. White cells are
// sources, which keep their temperature. The rim of the plate keeps its temperature, too. The
// temperature of each other cell depends on its four neighbours:
//
//	t'(x, y) = t + rate · (up + down + left + right − 4t)
//
// # In parallel
//
// The ranks form a grid (a cartesian topology), each owns a rectangular block
// and keeps a copy of the cells just outside it: the halo. A step is
//
//  1. post receives for the four sides of the halo,
//  2. start sends of the block's own four edges, rows as they lie in memory,
//     columns packed,
//  3. compute the cells that need no halo while the messages travel,
//  4. wait, and compute the edge.
//
// Every cell is computed by the same expression in the same order, whichever rank owns it. A
// conversion prevents the compiler from fusing the only operations that it could fuse. So the
// result does not depend on the number of ranks, and a test compares it bit for bit.
package heat

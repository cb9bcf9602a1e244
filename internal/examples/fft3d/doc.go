// Package fft3d computes the three-dimensional discrete Fourier transform of a cube of complex
// numbers: in one process (Serial), or divided among ranks over Split-C, as in "Split-C for the New
// Millennium", or over MPLite.
//
//	F(w, v, u) = sum over z, y, x of f(z, y, x) · exp(-2πi (wz + vy + ux)/n)
//
// # In parallel
//
// Each rank has a slab: neighbouring planes, with constant z in each plane. It transforms a plane
// along x and y, and at once stores to each other rank the rows that this rank transforms next. A
// plane's rows are contiguous in memory at both ends. So the transposition is one bulk store for
// each plane and rank, without packing, and is in flight while the next plane is transformed. When
// all rows have arrived, a rank has all z for some rows y, and transforms along z. The result stays
// divided in this way: a rank has F(w, v, u) for its v.
//
// The same code transforms a part and the whole cube. Each line is transformed by the same
// operations in the same order, so the bits of the result do not depend on the number of ranks.
package fft3d

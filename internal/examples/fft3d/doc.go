// Package fft3d transforms a cube of complex numbers by a discrete Fourier transform in
// three dimensions, alone (Serial) or divided among ranks: over Split-C, as in "Split-C
// for the New Millennium", and over MPLite.
//
//	F(w, v, u) = sum over z, y, x of f(z, y, x) · exp(-2πi (wz + vy + ux)/n)
//
// # In parallel
//
// Each rank has a slab of neighbouring planes, cut across z. It transforms a plane along
// x and y, and at once stores the rows of it that another rank goes on with to that rank:
// a plane's rows lie together in memory at both ends, so that the transposition
// is one bulk store for each plane and rank, without packing, and travels while the next plane is
// transformed. When all has come, a rank has all z for some rows y and transforms
// along z. The result stays divided so: a rank has F(w, v, u) for its v.
//
// The same code transforms a part and the whole cube, each line by the same operations
// in the same order, so the bits of the result do not depend on the number of ranks.
package fft3d

package skeleton

import "math/bits"

// FFT3D is the Fourier transform of a cube with N points per side, where N is a power of two. A
// point has 16 bytes.
type FFT3D struct{ N int }

// Run is one rank's part: it transforms its planes, stores to each other rank the rows that the
// rank transforms next, and transforms the lines of its own rows. The transpose is a separate step,
// as in the paper. In contrast, examples/fft3d stores a plane's rows while it transforms the next
// plane.
func (a FFT3D) Run(r *Rank) error {
	line := 5 * a.N * (bits.Len(uint(a.N)) - 1) // number of operations, by the usual count
	lo, hi := share(a.N, r.ranks, r.me)
	mine := hi - lo
	if err := r.link.Compute(mine * 2 * a.N * line); err != nil {
		return err
	}
	for i := 1; i < r.ranks; i++ {
		to := (r.me + i) % r.ranks
		lo, hi := share(a.N, r.ranks, to)
		for range mine { // the rows of each plane are contiguous
			if err := r.store(to, 1, 16*(hi-lo)*a.N); err != nil {
				return err
			}
		}
	}
	if err := r.storeSync(16 * (a.N - mine) * mine * a.N); err != nil {
		return err
	}
	if err := r.link.Compute(mine * a.N * line); err != nil {
		return err
	}
	return r.Barrier()
}

// CG is the method of conjugate gradients on a matrix of N rows. Each row has Row elements in
// addition to the diagonal.
type CG struct{ N, Row, Steps int }

// Run is one rank's part. In each step, the rank stores its rows of the direction to all other
// ranks, multiplies, and takes part in two sums.
func (a CG) Run(r *Rank) error {
	lo, hi := share(a.N, r.ranks, r.me)
	mine := hi - lo
	if err := r.Barrier(); err != nil { // the first sum
		return err
	}
	for range a.Steps {
		for i := 1; i < r.ranks; i++ {
			if err := r.store((r.me+i)%r.ranks, 1, 8*mine); err != nil {
				return err
			}
		}
		if err := r.storeSync(8 * (a.N - mine)); err != nil {
			return err
		}
		// The product of matrix and direction, and that of two vectors.
		if err := r.link.Compute(2*mine*(a.Row+1) + 2*mine); err != nil {
			return err
		}
		if err := r.Barrier(); err != nil {
			return err
		}
		// Updates of solution and residual, the residual's square, and then the next direction.
		if err := r.link.Compute(6 * mine); err != nil {
			return err
		}
		if err := r.Barrier(); err != nil {
			return err
		}
		if err := r.link.Compute(2 * mine); err != nil {
			return err
		}
	}
	return nil
}

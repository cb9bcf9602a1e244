package fft3d

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// Config describes the cube to transform.
type Config struct {
	N    int    // points along each edge of the cube, a power of two
	Seed uint64 // seed of the values at the points
}

// DefaultN is the edge of the cube of the paper.
const DefaultN = 128

// ErrConfig is wrapped by the errors for an impossible configuration.
var ErrConfig = errors.New("fft3d: configuration")

// Check returns an error if ranks cannot share the work.
func (c Config) Check(ranks int) error {
	switch {
	case !isPower(c.N) || c.N > 1024:
		return fmt.Errorf("%w: an edge of %d points: want a power of two up to 1024", ErrConfig, c.N)
	case ranks > c.N:
		return fmt.Errorf("%w: %d ranks for %d planes: use fewer ranks or a larger cube", ErrConfig, ranks, c.N)
	}
	return nil
}

// size returns the size of the cube for a report.
func (c Config) size() string { return fmt.Sprintf("%d x %d x %d", c.N, c.N, c.N) }

// value returns the value of a point before the transform. Its real and imaginary part are between
// -1 and 1, and depend only on the seed and the point.
func value(seed uint64, point int) complex128 {
	i := 2 * uint64(point)
	return complex(2*spmd.Uniform(seed, i)-1, 2*spmd.Uniform(seed, i+1)-1)
}

// fill writes the untransformed planes whose z is in the span to a, which is indexed by z-Lo, y and
// x; x varies fastest.
func (c Config) fill(a []complex128, z spmd.Span) {
	first := z.Lo * c.N * c.N
	for i := range a {
		a[i] = value(c.Seed, first+i)
	}
}

// worker holds the plan and the scratch memory for the transforms of one rank.
type worker struct {
	*plan
	plane, scratch []complex128
}

func newWorker(n int) *worker {
	return &worker{newPlan(n), make([]complex128, n*n), make([]complex128, n*n)}
}

// planes transforms each plane of a in both of its directions.
func (w *worker) planes(a []complex128) {
	n := w.n
	for ; len(a) > 0; a = a[n*n:] {
		plane := a[:n*n]
		for y := range n {
			w.transform(plane[y*n:(y+1)*n], w.scratch, 1)
		}
		w.transform(plane, w.scratch, n)
	}
}

// lines transforms a along z. a contains all z, some y and whole rows of x; it is indexed by z, y
// and x, and x varies fastest.
func (w *worker) lines(a []complex128) {
	n := w.n
	rows := len(a) / (n * n)
	for y := range rows {
		for z := range n {
			at := (z*rows + y) * n
			copy(w.plane[z*n:(z+1)*n], a[at:at+n])
		}
		w.transform(w.plane, w.scratch, n)
		for z := range n {
			at := (z*rows + y) * n
			copy(a[at:at+n], w.plane[z*n:(z+1)*n])
		}
	}
}

// Cube returns the untransformed cube, indexed by z, y and x; x varies fastest.
func (c Config) Cube() []complex128 {
	a := make([]complex128, c.N*c.N*c.N)
	c.fill(a, spmd.Span{Hi: c.N})
	return a
}

// Serial transforms a cube of c.N points along each edge in place, in one process.
func Serial(c Config, a []complex128) {
	w := newWorker(c.N)
	w.planes(a)
	w.lines(a)
}

package fft3d

import (
	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

// The phases of a run.
const (
	planes = iota
	stores
	transpose
	lines
)

func newTimer() *report.Timer {
	return report.NewTimer(report.Phase{Name: "planes"}, report.Phase{Name: "their stores"},
		report.Phase{Name: "transposition", Waits: true}, report.Phase{Name: "lines"})
}

// slab is a rank's part of the work: its planes before the transposition, indexed by z-z.Lo, y and
// x, and its rows afterwards, indexed by z, y-y.Lo and x. The index x varies fastest.
type slab struct {
	Config
	*worker
	ranks, rank int
	z, y        spmd.Span
	before      []complex128
	after       []complex128
}

// newSlab returns the part of a rank; after is the memory for the rows.
func newSlab(c Config, ranks, rank int, after []complex128) *slab {
	share := spmd.Share(c.N, ranks, rank)
	s := &slab{Config: c, worker: newWorker(c.N), ranks: ranks, rank: rank, z: share, y: share}
	s.before = make([]complex128, share.Len()*c.N*c.N)
	s.after = after[:share.Len()*c.N*c.N]
	c.fill(s.before, s.z)
	return s
}

// rows returns the rows y of a plane z of this rank.
func (s *slab) rows(z int, y spmd.Span) []complex128 {
	at := ((z-s.z.Lo)*s.N + y.Lo) * s.N
	return s.before[at : at+y.Len()*s.N]
}

// place returns the index at which the rows of plane z begin in the memory of the rank that has
// them after the transposition.
func place(n, z int, y spmd.Span) int { return z * y.Len() * n }

// assemble copies a rank's rows after the transposition into the whole cube.
func (c Config) assemble(cube, rows []complex128, y spmd.Span) {
	row := y.Len() * c.N
	for z := range c.N {
		copy(cube[(z*c.N+y.Lo)*c.N:], rows[z*row:(z+1)*row])
	}
}

// most returns the largest number of points of a rank.
func (c Config) most(ranks int) int { return (c.N + ranks - 1) / ranks * c.N * c.N }

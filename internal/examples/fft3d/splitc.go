package fft3d

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/splitc"
)

// Run transforms a cube on all ranks of w, all of which must call it. Rank 0 gets the report and,
// if keep is set, the transformed cube.
func Run(ctx context.Context, w *splitc.World, c Config, keep bool) (*report.Report, []complex128, error) {
	if err := c.Check(w.Procs()); err != nil {
		return nil, nil, err
	}
	rows, err := splitc.AllSpreadMalloc[complex128](ctx, w, w.Procs(), c.most(w.Procs()))
	if err != nil {
		return nil, nil, err
	}
	s := newSlab(c, w.Procs(), w.MyProc(), rows.Local(w))
	clear(s.after) // makes the system allocate the memory before the clock starts
	if err := w.Barrier(ctx); err != nil {
		return nil, nil, err
	}
	t := newTimer()
	if err := s.transform(ctx, w, t, rows); err != nil {
		return nil, nil, err
	}
	rep := report.New("fft3d", c.size(), w.Layer(), w.Procs())
	if err := spmd.Collect(ctx, w, rep, t); err != nil {
		return nil, nil, err
	}
	var cube []complex128
	if keep {
		if cube, err = s.gather(ctx, w, rows); err != nil {
			return nil, nil, err
		}
	}
	return rep, cube, splitc.AllSpreadFree(ctx, w, rows)
}

// transform is the measured part of Run.
func (s *slab) transform(ctx context.Context, w *splitc.World, t *report.Timer, rows splitc.Array[complex128]) error {
	for z := s.z.Lo; z < s.z.Hi; z++ {
		t.Enter(planes)
		s.planes(s.rows(z, spmd.Span{Hi: s.N}))
		t.Enter(stores)
		if err := s.store(ctx, w, t, rows, z); err != nil {
			return err
		}
	}
	t.Enter(transpose)
	theirs := (s.N - s.z.Len()) * s.y.Len() * s.N
	if err := w.StoreSync(ctx, 16*theirs); err != nil {
		return err
	}
	t.Enter(lines)
	s.lines(s.after)
	t.Enter(transpose)
	if err := w.Sync(ctx); err != nil { // from here on the planes may be changed
		return err
	}
	err := w.Barrier(ctx)
	t.Stop()
	return err
}

// store stores a plane's rows to the ranks that transform them next, beginning with the rank after
// this one, and copies this rank's own rows.
func (s *slab) store(ctx context.Context, w *splitc.World, t *report.Timer, rows splitc.Array[complex128], z int) error {
	for i := range s.ranks {
		to := (s.rank + i) % s.ranks
		y := spmd.Share(s.N, s.ranks, to)
		src, at := s.rows(z, y), place(s.N, z, y)
		if to == s.rank {
			copy(s.after[at:], src)
			continue
		}
		if err := splitc.BulkStore(ctx, w, rows.On(to).Add(at), src); err != nil {
			return err
		}
		t.Traffic.Store.Add(16 * len(src))
	}
	return nil
}

// gather returns the whole cube on rank 0, which reads it from all ranks.
func (s *slab) gather(ctx context.Context, w *splitc.World, rows splitc.Array[complex128]) (cube []complex128, err error) {
	if s.rank == 0 {
		cube = make([]complex128, s.N*s.N*s.N)
		part := make([]complex128, s.most(s.ranks))
		for r := range s.ranks {
			y := spmd.Share(s.N, s.ranks, r)
			theirs := part[:y.Len()*s.N*s.N]
			if err := splitc.BulkRead(ctx, w, theirs, rows.On(r)); err != nil {
				return nil, err
			}
			s.assemble(cube, theirs, y)
		}
	}
	return cube, w.Barrier(ctx)
}

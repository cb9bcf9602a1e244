package fft3d

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/mplite"
)

// RunMPLite transforms a cube on all ranks of comm, all of which must call it. It uses messages
// instead of stores; a message contains a plane's rows for one rank. Rank 0 gets the report and, if
// keep is set, the transformed cube.
func RunMPLite(ctx context.Context, comm *mplite.Comm, c Config, keep bool) (*report.Report, []complex128, error) {
	if err := c.Check(comm.Size()); err != nil {
		return nil, nil, err
	}
	s := newSlab(c, comm.Size(), comm.Rank(), make([]complex128, c.most(comm.Size())))
	requests, err := s.receive(comm)
	if err != nil {
		return nil, nil, err
	}
	if err := comm.Barrier(ctx); err != nil {
		return nil, nil, err
	}
	t := newTimer()
	for z := s.z.Lo; z < s.z.Hi; z++ {
		t.Enter(planes)
		s.planes(s.rows(z, spmd.Span{Hi: c.N}))
		t.Enter(stores)
		if requests, err = s.send(comm, t, z, requests); err != nil {
			return nil, nil, err
		}
	}
	t.Enter(transpose)
	if err := mplite.Waitall(ctx, requests, nil); err != nil {
		return nil, nil, err
	}
	t.Enter(lines)
	s.lines(s.after)
	t.Enter(transpose)
	if err := comm.Barrier(ctx); err != nil {
		return nil, nil, err
	}
	t.Stop()
	rep := report.New("fft3d", c.size(), "mplite", comm.Size())
	if err := spmd.CollectMPLite(ctx, comm, rep, t); err != nil || !keep {
		return rep, nil, err
	}
	cube, err := s.gatherMPLite(ctx, comm)
	return rep, cube, err
}

// receive posts the receives of all rows that other ranks will send.
func (s *slab) receive(comm *mplite.Comm) (requests []mplite.Request, err error) {
	row := s.y.Len() * s.N
	for from := range s.ranks {
		if from == s.rank {
			continue
		}
		theirs := spmd.Share(s.N, s.ranks, from)
		for z := theirs.Lo; z < theirs.Hi; z++ {
			r, err := mplite.Irecv(comm, s.after[place(s.N, z, s.y):][:row], from, z)
			if err != nil {
				return requests, err
			}
			requests = append(requests, r)
		}
	}
	return requests, nil
}

// send starts the sends of a plane's rows, beginning with the rank after this one, and copies this
// rank's own rows.
func (s *slab) send(comm *mplite.Comm, t *report.Timer, z int, requests []mplite.Request) ([]mplite.Request, error) {
	for i := range s.ranks {
		to := (s.rank + i) % s.ranks
		y := spmd.Share(s.N, s.ranks, to)
		rows := s.rows(z, y)
		if to == s.rank {
			copy(s.after[place(s.N, z, y):], rows)
			continue
		}
		r, err := mplite.Isend(comm, rows, to, z)
		if err != nil {
			return requests, err
		}
		requests = append(requests, r)
		t.Traffic.Store.Add(16 * len(rows))
	}
	return requests, nil
}

// gatherMPLite returns the whole cube on rank 0.
func (s *slab) gatherMPLite(ctx context.Context, comm *mplite.Comm) ([]complex128, error) {
	counts := make([]int, s.ranks)
	for r := range counts {
		counts[r] = spmd.Share(s.N, s.ranks, r).Len() * s.N * s.N
	}
	var all, cube []complex128
	if s.rank == 0 {
		all, cube = make([]complex128, s.N*s.N*s.N), make([]complex128, s.N*s.N*s.N)
	}
	if err := mplite.Gatherv(ctx, comm, s.after, all, counts, 0); err != nil || s.rank != 0 {
		return nil, err
	}
	for r, n := range counts {
		s.assemble(cube, all[:n], spmd.Share(s.N, s.ranks, r))
		all = all[n:]
	}
	return cube, nil
}

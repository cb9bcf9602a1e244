package cholesky

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/splitc"
)

// The phases of a run.
const (
	diagonal = iota
	column
	rest
	waiting
)

// Run factors the matrix on all ranks of w, all of which must call it. Rank 0 gets the report and,
// if keep is set, the factor.
func Run(ctx context.Context, w *splitc.World, c Config, keep bool) (*report.Report, *Matrix, error) {
	if err := c.Check(w.Procs()); err != nil {
		return nil, nil, err
	}
	s, err := newShare(ctx, w, c)
	if err != nil {
		return nil, nil, err
	}
	if err := w.Barrier(ctx); err != nil {
		return nil, nil, err
	}
	for k := range c.blocks() {
		if err := s.step(ctx, k); err != nil {
			return nil, nil, err
		}
	}
	s.timer.Stop()
	rep := report.New("cholesky", c.size(), w.Layer(), w.Procs())
	if err := spmd.Collect(ctx, w, rep, s.timer); err != nil {
		return nil, nil, err
	}
	var m *Matrix
	if keep {
		if m, err = s.gather(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := splitc.AllSpreadFree(ctx, w, s.panel); err != nil {
		return nil, nil, err
	}
	return rep, m, splitc.AllSpreadFree(ctx, w, s.matrix)
}

// share is a rank's part of the work.
type share struct {
	Config
	w      *splitc.World
	timer  *report.Timer
	matrix splitc.Array[block] // A[Down*Over]::[down*over]
	panel  splitc.Array[block] // on each rank, for each of two columns: the diagonal block, then the other blocks by owner
	table  []*block            // the lower triangle by rows: this rank's blocks, and nil for blocks of other ranks
	known  []block             // this rank's panel
	first  int                 // index in the panel at which the column begins
	place  []int               // index in the panel of each row's block of the column
	ends   []int               // index in the panel at which each owner's blocks end
}

func newShare(ctx context.Context, w *splitc.World, c Config) (s *share, err error) {
	s = &share{Config: c, w: w}
	s.timer = report.NewTimer(report.Phase{Name: "factor of the diagonal"}, report.Phase{Name: "column"},
		report.Phase{Name: "all right of it"}, report.Phase{Name: "stores of all", Waits: true})
	if s.matrix, err = splitc.AllSpreadMalloc[block](ctx, w, c.Down*c.Over, c.down()*c.over()); err != nil {
		return nil, err
	}
	if s.panel, err = splitc.AllSpreadMalloc[block](ctx, w, w.Procs(), 2*c.blocks()); err != nil {
		return nil, err
	}
	s.known = s.panel.Local(w)
	s.place, s.ends = make([]int, c.blocks()), make([]int, w.Procs())
	clear(s.known) // makes the system allocate the memory before the clock starts
	mine := s.matrix.Local(w)
	for i := range c.blocks() {
		for j := range i + 1 {
			var b *block
			if rank, slot := c.owner(i, j, w.Procs()); rank == w.MyProc() {
				b = &mine[slot]
				c.fill(b, i, j)
			}
			s.table = append(s.table, b)
		}
	}
	return s, nil
}

// own returns a block of the lower triangle if this rank has it, and otherwise nil.
func (s *share) own(i, j int) *block { return s.table[i*(i+1)/2+j] }

// arrange assigns places in the panel to the blocks of column k below the diagonal. Blocks of one
// owner are contiguous, so that they are one bulk store. Columns use the two halves of the panel in
// turn, so that one column can arrive while the previous one is in use.
func (s *share) arrange(k int) {
	s.first = k % 2 * s.blocks()
	next := s.first + 1
	for r := range s.ends {
		for i := k + 1; i < s.blocks(); i++ {
			if owner, _ := s.owner(i, k, len(s.ends)); owner == r {
				s.place[i] = next
				next++
			}
		}
		s.ends[r] = next
	}
}

// step computes column k of the factor's blocks, and subtracts their products from the blocks to
// the right.
func (s *share) step(ctx context.Context, k int) error {
	s.timer.Enter(diagonal)
	n, me := s.blocks(), s.w.MyProc()
	s.arrange(k)
	if b := s.own(k, k); b != nil {
		if !factor(b) {
			return fmt.Errorf("%w: block %d of the diagonal", ErrNotPositive, k)
		}
		s.known[s.first] = *b
		if err := s.tell(ctx, s.first, s.first+1, func(rank int) bool { return s.count(rank) > 0 }); err != nil {
			return err
		}
	}
	if owner, _ := s.owner(k, k, len(s.ends)); s.count(owner) < n-k-1 { // other ranks need the diagonal block
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	s.timer.Enter(column)
	for i := k + 1; i < n; i++ {
		if b := s.own(i, k); b != nil {
			solve(b, &s.known[s.first])
			s.known[s.place[i]] = *b
		}
	}
	if err := s.tell(ctx, s.ends[me]-s.count(me), s.ends[me], func(int) bool { return true }); err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	return s.subtract(k)
}

// subtract updates this rank's blocks to the right of column k.
func (s *share) subtract(k int) error {
	s.timer.Enter(rest)
	for i := k + 1; i < s.blocks(); i++ {
		for j := k + 1; j <= i; j++ {
			if b := s.own(i, j); b != nil {
				update(b, &s.known[s.place[i]], &s.known[s.place[j]])
			}
		}
		if err := s.w.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// count returns the number of blocks of the column, below the diagonal, that a rank has.
func (s *share) count(rank int) int {
	if rank == 0 {
		return s.ends[0] - s.first - 1
	}
	return s.ends[rank] - s.ends[rank-1]
}

// tell stores the panel's blocks lo to hi-1 to the ranks for which wants returns true.
func (s *share) tell(ctx context.Context, lo, hi int, wants func(rank int) bool) error {
	me, procs := s.w.MyProc(), s.w.Procs()
	for i := 1; i < procs; i++ {
		to := (me + i) % procs
		if lo == hi || !wants(to) {
			continue
		}
		if err := splitc.BulkStore(ctx, s.w, s.panel.On(to).Add(lo), s.known[lo:hi]); err != nil {
			return err
		}
		s.timer.Traffic.Store.Add(8 * B * B * (hi - lo))
	}
	return nil
}

// sync waits until all stores of all ranks are complete. Their sources may then be changed.
func (s *share) sync(ctx context.Context) error {
	s.timer.Enter(waiting)
	if err := s.w.AllStoreSync(ctx); err != nil {
		return err
	}
	return s.w.Sync(ctx)
}

// gather returns the factor on rank 0, which reads it from all ranks.
func (s *share) gather(ctx context.Context) (m *Matrix, err error) {
	if s.w.MyProc() == 0 {
		c := s.Config
		m = &Matrix{c, make([]block, c.blocks()*(c.blocks()+1)/2)}
		for i := range c.blocks() {
			for j := range i + 1 {
				rank, slot := c.owner(i, j, s.w.Procs())
				if err := splitc.BulkGet(ctx, s.w, m.at(i, j)[:], splitc.Cast[float64](s.matrix.On(rank).Add(slot))); err != nil {
					return nil, err
				}
			}
		}
		if err := s.w.Sync(ctx); err != nil {
			return nil, err
		}
	}
	return m, s.w.Barrier(ctx)
}

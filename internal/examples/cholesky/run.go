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

// Run factors the matrix on all ranks of w, which all call it. The report is rank 0's, as
// is the factor if keep is set.
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
	panel  splitc.Array[block] // on each rank, for each of two columns: the diagonal block, and the others by owner
	table  []*block            // the lower triangle by rows: this rank's blocks, and nil for others
	known  []block             // this rank's panel
	first  int                 // where the column begins, in the panel
	place  []int               // of each row's block of the column, in the panel
	ends   []int               // of each owner's blocks, in the panel
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
	clear(s.known) // which has the system find the memory before the clock starts
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

// own returns a block of the lower triangle if it is this rank's, else nil.
func (s *share) own(i, j int) *block { return s.table[i*(i+1)/2+j] }

// arrange gives the blocks of column k below the diagonal their places in the panel: those
// of an owner in a row, so that they are one bulk store. Columns take turns with the halves
// of the panel, so that one can come while the one before is in use.
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

// step computes column k of blocks of the factor, and subtracts what it means for those
// on the right.
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
	if owner, _ := s.owner(k, k, len(s.ends)); s.count(owner) < n-k-1 { // others wait for that block
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

// subtract goes over this rank's blocks right of column k.
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

// count is how many blocks of the column, below the diagonal, a rank has.
func (s *share) count(rank int) int {
	if rank == 0 {
		return s.ends[0] - s.first - 1
	}
	return s.ends[rank] - s.ends[rank-1]
}

// tell makes the panel's blocks lo to hi-1 known to the ranks that want them.
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

// sync waits until all stores of all ranks are complete, and their sources may be changed.
func (s *share) sync(ctx context.Context) error {
	s.timer.Enter(waiting)
	if err := s.w.AllStoreSync(ctx); err != nil {
		return err
	}
	return s.w.Sync(ctx)
}

// gather returns the factor on rank 0, which reads it.
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

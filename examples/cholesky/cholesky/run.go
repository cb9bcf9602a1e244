package cholesky

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/examples/internal/report"
	"github.com/bobnet-go/bobnet/examples/internal/spmd"
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
	panel  splitc.Array[block] // on each rank: the blocks of a column by row, and the diagonal one behind them
	mine   []block
	known  []block
}

func newShare(ctx context.Context, w *splitc.World, c Config) (s *share, err error) {
	s = &share{Config: c, w: w}
	s.timer = report.NewTimer(report.Phase{Name: "factor of the diagonal"}, report.Phase{Name: "column"},
		report.Phase{Name: "all right of it"}, report.Phase{Name: "stores of all", Waits: true})
	if s.matrix, err = splitc.AllSpreadMalloc[block](ctx, w, c.Down*c.Over, c.down()*c.over()); err != nil {
		return nil, err
	}
	if s.panel, err = splitc.AllSpreadMalloc[block](ctx, w, w.Procs(), c.blocks()+1); err != nil {
		return nil, err
	}
	s.mine, s.known = s.matrix.Local(w), s.panel.Local(w)
	clear(s.known) // which has the system find the memory before the clock starts
	for i := range c.blocks() {
		for j := range i + 1 {
			if b := s.own(i, j); b != nil {
				c.fill(b, i, j)
			}
		}
	}
	return s, nil
}

// own returns a block if it is this rank's, else nil.
func (s *share) own(i, j int) *block {
	rank, slot := s.owner(i, j, s.w.Procs())
	if rank != s.w.MyProc() {
		return nil
	}
	return &s.mine[slot]
}

// step computes column k of blocks of the factor, and subtracts what it means for those
// on the right.
func (s *share) step(ctx context.Context, k int) error {
	s.timer.Enter(diagonal)
	n := s.blocks()
	if b := s.own(k, k); b != nil {
		if !factor(b) {
			return fmt.Errorf("%w: block %d of the diagonal", ErrNotPositive, k)
		}
		if err := s.tell(ctx, n, b, s.inColumn(k)); err != nil {
			return err
		}
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	s.timer.Enter(column)
	for i := k + 1; i < n; i++ {
		if b := s.own(i, k); b != nil {
			solve(b, &s.known[n])
			if err := s.tell(ctx, i, b, nil); err != nil {
				return err
			}
		}
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	s.timer.Enter(rest)
	for i := k + 1; i < n; i++ {
		for j := k + 1; j <= i; j++ {
			if b := s.own(i, j); b != nil {
				update(b, &s.known[i], &s.known[j])
			}
		}
		if err := s.w.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// inColumn says which ranks have blocks of column k below the diagonal.
func (s *share) inColumn(k int) map[int]bool {
	ranks := map[int]bool{}
	for i := k + 1; i < min(s.blocks(), k+1+s.Down); i++ {
		r, _ := s.owner(i, k, s.w.Procs())
		ranks[r] = true
	}
	return ranks
}

// tell makes a block known to these ranks, or to all: in a slot of their panel.
func (s *share) tell(ctx context.Context, slot int, b *block, ranks map[int]bool) error {
	me, procs := s.w.MyProc(), s.w.Procs()
	s.known[slot] = *b
	for i := 1; i < procs; i++ {
		to := (me + i) % procs
		if ranks != nil && !ranks[to] {
			continue
		}
		if err := splitc.BulkStore(ctx, s.w, splitc.Cast[float64](s.panel.On(to).Add(slot)), b[:]); err != nil {
			return err
		}
		s.timer.Traffic.Store.Add(8 * B * B)
	}
	return nil
}

// sync waits until all stores of all ranks are complete.
func (s *share) sync(ctx context.Context) error {
	s.timer.Enter(waiting)
	return s.w.AllStoreSync(ctx)
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

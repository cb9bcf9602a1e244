package cg

import (
	"context"
	"slices"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/splitc"
)

// Run solves the system on all ranks of w, all of which must call it. Rank 0 gets the report and
// the solution.
func Run(ctx context.Context, w *splitc.World, c Config) (*report.Report, Result, error) {
	if err := c.Check(w.Procs()); err != nil {
		return nil, Result{}, err
	}
	o := &world{ctx: ctx, w: w, n: c.N, rows: spmd.Share(c.N, w.Procs(), w.MyProc()), timer: NewTimer()}
	res, err := c.solve(o.rows, o, o.timer, func() error { return w.Barrier(ctx) })
	if err != nil {
		return nil, res, err
	}
	rep := report.New("cg", c.size(), w.Layer(), w.Procs())
	if err := spmd.Collect(ctx, w, rep, o.timer); err != nil {
		return nil, res, err
	}
	return rep, res, splitc.AllSpreadFree(ctx, w, o.whole)
}

// world implements others for the processes of a Split-C program.
type world struct {
	ctx   context.Context
	w     *splitc.World
	n     int
	rows  spmd.Span
	whole splitc.Array[float64] // the whole search direction, on each rank
	timer *report.Timer
}

func (o *world) direction() (whole []float64, err error) {
	o.whole, err = splitc.AllSpreadMalloc[float64](o.ctx, o.w, o.w.Procs(), o.n)
	return o.whole.Local(o.w), err
}

// spread stores this rank's rows to all other ranks, beginning with the rank after this one.
func (o *world) spread() error {
	me, procs := o.w.MyProc(), o.w.Procs()
	mine := o.whole.Local(o.w)[o.rows.Lo:o.rows.Hi]
	for i := 1; i < procs; i++ {
		to := o.whole.On((me + i) % procs).Add(o.rows.Lo)
		if err := splitc.BulkStore(o.ctx, o.w, to, mine); err != nil {
			return err
		}
		o.timer.Traffic.Store.Add(8 * len(mine))
	}
	return o.w.StoreSync(o.ctx, 8*(o.n-len(mine)))
}

// settle waits until the other ranks have acknowledged the stores of spread. It runs after the sums, because the
// messages of the sums also carry the acknowledgements. Waiting in spread would need separate acknowledgement
// messages.
func (o *world) settle() error { return o.w.Sync(o.ctx) }

func (o *world) sum(v float64) (float64, error) {
	return splitc.ReduceToAll(o.ctx, o.w, v, splitc.Add[float64]())
}

// collect uses the memory of the search direction, which is no longer needed.
func (o *world) collect(mine []float64) (all []float64, err error) {
	if err := splitc.BulkWrite(o.ctx, o.w, o.whole.On(0).Add(o.rows.Lo), mine); err != nil {
		return nil, err
	}
	if err := o.w.Barrier(o.ctx); err != nil {
		return nil, err
	}
	if o.w.MyProc() == 0 {
		all = slices.Clone(o.whole.Local(o.w))
	}
	return all, nil
}

package cg

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/mplite"
)

// RunMPLite solves the system on all ranks of comm, all of which must call it. It uses an allgather
// instead of the stores. Rank 0 gets the report and the solution.
func RunMPLite(ctx context.Context, comm *mplite.Comm, c Config) (*report.Report, Result, error) {
	if err := c.Check(comm.Size()); err != nil {
		return nil, Result{}, err
	}
	o := &peers{ctx: ctx, comm: comm, whole: make([]float64, c.N), timer: NewTimer()}
	for r := range comm.Size() {
		o.counts = append(o.counts, spmd.Share(c.N, comm.Size(), r).Len())
	}
	rows := spmd.Share(c.N, comm.Size(), comm.Rank())
	res, err := c.solve(rows, o, o.timer, func() error { return comm.Barrier(ctx) })
	if err != nil {
		return nil, res, err
	}
	rep := report.New("cg", c.size(), "mplite", comm.Size())
	return rep, res, spmd.CollectMPLite(ctx, comm, rep, o.timer)
}

// peers implements others for the ranks of a communicator.
type peers struct {
	ctx    context.Context
	comm   *mplite.Comm
	whole  []float64
	counts []int // number of rows of each rank
	timer  *report.Timer
	one    [2]float64
}

func (o *peers) direction() ([]float64, error) { return o.whole, nil }

func (o *peers) spread() error {
	for r, n := range o.counts {
		if r != o.comm.Rank() {
			o.timer.Traffic.Store.Add(8 * n)
		}
	}
	return mplite.Allgatherv(o.ctx, o.comm, nil, o.whole, o.counts)
}

func (*peers) settle() error { return nil } // Allgatherv has sent the rows

func (o *peers) sum(v float64) (float64, error) {
	o.one[0] = v
	err := mplite.Allreduce(o.ctx, o.comm, o.one[:1], o.one[1:], mplite.Sum[float64]())
	return o.one[1], err
}

func (o *peers) collect(mine []float64) ([]float64, error) {
	var all []float64
	if o.comm.Rank() == 0 {
		all = make([]float64, len(o.whole))
	}
	return all, mplite.Gatherv(o.ctx, o.comm, mine, all, o.counts, 0)
}

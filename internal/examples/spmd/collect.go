package spmd

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
)

// Collect fills the reports of all ranks of w with the times and the traffic of all of
// them.
func Collect(ctx context.Context, w *splitc.World, r *report.Report, t *report.Timer) error {
	sum, longest := t.Values(), t.Values()
	if err := splitc.ReduceSliceToAll(ctx, w, sum, splitc.Add[float64]()); err != nil {
		return err
	}
	if err := splitc.ReduceSliceToAll(ctx, w, longest, splitc.Max[float64]()); err != nil {
		return err
	}
	r.Fill(t, sum, longest)
	return nil
}

// CollectMPLite fills the reports of all ranks of comm with the times and the traffic of
// all of them.
func CollectMPLite(ctx context.Context, comm *mplite.Comm, r *report.Report, t *report.Timer) error {
	mine := t.Values()
	sum, longest := make([]float64, len(mine)), make([]float64, len(mine))
	if err := mplite.Allreduce(ctx, comm, mine, sum, mplite.Sum[float64]()); err != nil {
		return err
	}
	if err := mplite.Allreduce(ctx, comm, mine, longest, mplite.Max[float64]()); err != nil {
		return err
	}
	r.Fill(t, sum, longest)
	return nil
}

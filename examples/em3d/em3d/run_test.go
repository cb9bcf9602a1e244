package em3d

import (
	"context"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/examples/internal/simjob"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRun: any layer and number of ranks, by bulk stores and by single ones, gives the
// bits of one process.
func TestRun(t *testing.T) {
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		for _, single := range []bool{false, true} {
			c := small()
			c.Single = single
			want := Serial(c, procs)
			simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, procs, func(ctx context.Context, w *splitc.World) {
				rep, got, err := Run(ctx, w, c, true)
				if err != nil {
					t.Errorf("process %d: %v", w.MyProc(), err)
					return
				}
				for f := range fields {
					if !slices.Equal(got[f], want[f]) {
						t.Errorf("single stores %v: field %d at process %d is not that of a serial run", single, f, w.MyProc())
					}
				}
				if n := int64(procs * (procs - 1) * fields * c.Steps); !single && rep.Traffic.Store.Operations != n {
					t.Errorf("%d stores, want %d", rep.Traffic.Store.Operations, n)
				}
			})
		}
	})
}

package cg

import (
	"context"
	"testing"

	"github.com/bobnet-go/bobnet/examples/internal/simjob"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestRun(t *testing.T) {
	c := small(80, 20)
	want, err := Serial(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, procs, func(ctx context.Context, w *splitc.World) {
			rep, res, err := Run(ctx, w, c)
			if err != nil {
				t.Errorf("process %d: %v", w.MyProc(), err)
			} else if w.MyProc() == 0 {
				expect(t, c, res, want)
				if n := int64(procs * (procs - 1) * res.Steps); rep.Traffic.Store.Operations != n {
					t.Errorf("%d stores, want %d", rep.Traffic.Store.Operations, n)
				}
			}
		})
	})
}

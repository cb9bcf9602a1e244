package cg

import (
	"context"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
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

// TestSettle: over RDMA a step waits for no acknowledgement that comes alone, although its
// stores lie in the program's memory until they are acknowledged. So it takes about as long as
// one over a layer that copies what it sends, in virtual time.
func TestSettle(t *testing.T) {
	c := small(2048, 8) // rows for stores that are not copied
	took := map[string]float64{}
	for _, layer := range []string{"reliable", "rdma"} {
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, 2, func(ctx context.Context, w *splitc.World) {
			start := w.Seconds()
			_, res, err := Run(ctx, w, c)
			if err != nil {
				t.Errorf("process %d: %v", w.MyProc(), err)
			} else if w.MyProc() == 0 {
				took[layer] = (w.Seconds() - start) / float64(res.Steps)
			}
		})
	}
	if took["rdma"] > 1.5*took["reliable"] {
		t.Errorf("a step takes %.3g s over RDMA, and %.3g s over VIs of reliable delivery", took["rdma"], took["reliable"])
	}
}

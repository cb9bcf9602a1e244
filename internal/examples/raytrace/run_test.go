package raytrace

import (
	"context"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRun: any layer and number of ranks gives the pixels of one process.
func TestRun(t *testing.T) {
	c := small()
	want := NewTracer(c).Serial()
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, procs, func(ctx context.Context, w *splitc.World) {
			_, got, err := Run(ctx, w, c)
			if err != nil {
				t.Errorf("process %d: %v", w.MyProc(), err)
			} else if w.MyProc() == 0 {
				if err := got.Equal(want); err != nil {
					t.Error(err)
				}
			} else if got != nil {
				t.Errorf("process %d has a picture", w.MyProc())
			}
		})
	})
}

package fft3d

import (
	"context"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRun: any layer and number of ranks gives the bits of one process.
func TestRun(t *testing.T) {
	c := Config{N: 16, Seed: 1}
	want := alone(c)
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, procs, func(ctx context.Context, w *splitc.World) {
			rep, cube, err := Run(ctx, w, c, true)
			switch {
			case err != nil:
				t.Errorf("process %d: %v", w.MyProc(), err)
			case w.MyProc() == 0 && !slices.Equal(cube, want):
				t.Error("the cube is not that of a serial run")
			case w.MyProc() == 0 && rep.Traffic.Store.Operations != int64(16*(procs-1)):
				t.Errorf("%d stores", rep.Traffic.Store.Operations)
			case w.MyProc() == 0 && rep.Traffic.Get != (report.Count{}):
				t.Errorf("%d gets", rep.Traffic.Get.Operations)
			}
		})
	})
}

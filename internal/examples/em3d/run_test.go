package em3d

import (
	"context"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
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

// TestTwoRanksMeetNowhere: how often two ranks meet in collectives does not depend on the
// number of steps, unless one of them needs nothing of the other.
func TestTwoRanksMeetNowhere(t *testing.T) {
	count := func(t *testing.T, layer string, c Config) (collectives uint64) {
		want := Serial(c, 2)
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, 2, func(ctx context.Context, w *splitc.World) {
			_, got, err := Run(ctx, w, c, true)
			if err != nil {
				t.Errorf("process %d: %v", w.MyProc(), err)
				return
			}
			for f := range fields {
				if !slices.Equal(got[f], want[f]) {
					t.Errorf("%d steps: field %d at process %d is not that of a serial run", c.Steps, f, w.MyProc())
				}
			}
			for range 64 { // as often as it takes until a snapshot is made
				if err := w.Poll(); err != nil {
					t.Error(err)
				}
			}
			if w.MyProc() == 0 {
				collectives = w.Snapshot().Stats.Collectives
			}
		})
		return collectives
	}
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		if procs != 2 {
			return
		}
		c := small()
		c.Steps = 2
		few := count(t, layer, c)
		c.Steps = 12
		// The last wait for all stores may find them complete or not.
		if many := count(t, layer, c); few == 0 || many > few+2 {
			t.Errorf("2 steps took %d collectives, 12 took %d", few, many)
		}
		c.Remote = 0
		count(t, layer, c)
	})
}

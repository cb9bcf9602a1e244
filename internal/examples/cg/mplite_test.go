package cg

import (
	"context"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestMPLite(t *testing.T) {
	c := small(80, 20)
	want, err := Serial(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []int{1, 2, 3, 5} {
		if ranks > 3 && !need.Full() {
			continue
		}
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			simjob.Run(t, sim.Options{Seed: 1}, ranks, func(ctx context.Context, comm *mplite.Comm) {
				_, res, err := RunMPLite(ctx, comm, c)
				if err != nil {
					t.Errorf("rank %d: %v", comm.Rank(), err)
				} else if comm.Rank() == 0 {
					expect(t, c, res, want)
				}
			})
		})
	}
}

// expect compares a solution with that of one process.
func expect(t *testing.T, c Config, got, want Result) {
	t.Helper()
	if off := Off(got.X, want.X); off > 1e-8 {
		t.Errorf("off by %v from a serial run", off)
	}
	if res := c.Residual(got.X); res > 10*c.Tolerance {
		t.Errorf("residual %v", res)
	}
	if d := got.Steps - want.Steps; d < -want.Steps/10 || d > want.Steps/10 { // rounding differs
		t.Errorf("%d steps, a serial run took %d", got.Steps, want.Steps)
	}
}

package fft3d

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// alone is what one process makes of the cube.
func alone(c Config) []complex128 {
	a := c.Cube()
	Serial(c, a)
	return a
}

// TestMPLite: any number of ranks gives the bits of one process.
func TestMPLite(t *testing.T) {
	c := Config{N: 16, Seed: 1}
	want := alone(c)
	for _, ranks := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			simjob.Run(t, sim.Options{Seed: 1}, ranks, func(ctx context.Context, comm *mplite.Comm) {
				rep, cube, err := RunMPLite(ctx, comm, c, true)
				switch {
				case err != nil:
					t.Errorf("rank %d: %v", comm.Rank(), err)
				case comm.Rank() == 0 && !slices.Equal(cube, want):
					t.Error("the cube is not that of a serial run")
				case comm.Rank() == 0 && rep.Traffic.Store.Operations != int64(16*(ranks-1)):
					t.Errorf("%d messages", rep.Traffic.Store.Operations)
				}
			})
		})
	}
}

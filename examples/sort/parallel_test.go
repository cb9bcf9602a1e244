package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestSortAll(t *testing.T) {
	t.Logf("seed %d", *testSeed)
	rng := rand.New(rand.NewPCG(*testSeed, 0))
	for _, c := range []struct {
		ranks, n int
		loss     float64
	}{{1, 100, 0}, {2, 0, 0}, {3, 2, 0}, {4, 20000, 0}, {5, 1000, 0.05}, {8, 5000, 0.01}} {
		for name, data := range inputs(rng, c.n) {
			t.Run(fmt.Sprintf("%d %s on %d ranks, loss %v", c.n, name, c.ranks, c.loss), func(t *testing.T) {
				want := slices.Sorted(slices.Values(data))
				opts := sim.Options{Seed: *testSeed, Loss: c.loss, Delay: 5 * time.Microsecond, MTU: 1500}
				simjob.Run(t, opts, c.ranks, func(ctx context.Context, comm *mplite.Comm) {
					var mine, got []int64
					if comm.Rank() == 0 {
						mine = slices.Clone(data)
					}
					sorted, err := sortAll(ctx, comm, mine)
					if err != nil {
						t.Errorf("rank %d: %v", comm.Rank(), err)
						return
					}
					keep := func(part []int64) error { got = append(got, part...); return nil }
					if err := collect(ctx, comm, sorted, keep); err != nil {
						t.Errorf("rank %d: %v", comm.Rank(), err)
					}
					if comm.Rank() == 0 && !slices.Equal(got, want) {
						t.Error("what rank 0 collected is not the sorted data")
					}
				})
			})
		}
	}
}

// verify must find what sortAll could do wrong.
func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		parts  [][]int64
		before []int64
		good   bool
	}{
		"sorted":         {[][]int64{{1, 2}, {2, 3}, {4}}, []int64{4, 3, 2, 2, 1}, true},
		"empty parts":    {[][]int64{{}, {2, 3}, {}}, []int64{3, 2}, true},
		"parts overlap":  {[][]int64{{1, 3}, {}, {2}}, []int64{1, 2, 3}, false},
		"part unsorted":  {[][]int64{{2, 1}, {3}, {4}}, []int64{1, 2, 3, 4}, false},
		"one went lost":  {[][]int64{{1}, {2}, {3}}, []int64{1, 2, 3, 3}, false},
		"one is another": {[][]int64{{1}, {2}, {4}}, []int64{1, 2, 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			simjob.Run(t, sim.Options{Seed: 1}, len(c.parts), func(ctx context.Context, comm *mplite.Comm) {
				var before uint64
				if comm.Rank() == 0 {
					before = checksum(c.before)
				}
				if err := verify(ctx, comm, c.parts[comm.Rank()], before); (err == nil) != c.good {
					t.Errorf("rank %d: %v", comm.Rank(), err)
				}
			})
		})
	}
}

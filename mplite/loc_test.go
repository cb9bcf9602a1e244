package mplite_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestMinLocMaxLoc compares with the naive result, with equal values at several
// ranks, for every length that takes another algorithm.
func TestMinLocMaxLoc(t *testing.T) {
	for _, size := range []int{1, 2, 5, 8} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			for _, n := range []int{1, 5, 3000} {
				if err := located(c, n); err != nil {
					return fmt.Errorf("%d elements on %d ranks: %w", n, size, err)
				}
			}
			return nil
		}))
	}
}

func located(c *mplite.Comm, n int) error {
	of := func(rank int) []mplite.Loc[float32] {
		v := make([]mplite.Loc[float32], n)
		for i := range v {
			v[i] = mplite.Loc[float32]{Value: float32((rank*5 + i) % 4), Index: rank}
		}
		return v
	}
	smallest, largest := of(0), of(0)
	for r := 1; r < c.Size(); r++ {
		for i, x := range of(r) {
			if x.Value < smallest[i].Value {
				smallest[i] = x
			}
			if x.Value > largest[i].Value {
				largest[i] = x
			}
		}
	}
	got := make([]mplite.Loc[float32], n)
	if err := mplite.Allreduce(bg, c, of(c.Rank()), got, mplite.MinLoc[float32]()); err != nil || !slices.Equal(got, smallest) {
		return fmt.Errorf("minloc is wrong: %w", err)
	}
	if err := mplite.Reduce(bg, c, of(c.Rank()), got, mplite.MaxLoc[float32](), 0); err != nil || c.Rank() == 0 && !slices.Equal(got, largest) {
		return fmt.Errorf("maxloc is wrong: %w", err)
	}
	nan := []mplite.Loc[float64]{{Value: 1, Index: c.Rank()}}
	if c.Rank() == 0 {
		nan[0].Value = math.NaN()
	}
	if err := mplite.Allreduce(bg, c, nil, nan, mplite.MinLoc[float64]()); err != nil || nan[0].Index != 0 {
		return fmt.Errorf("the smallest is %v: %w", nan[0], err)
	}
	return nil
}

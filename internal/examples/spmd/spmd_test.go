package spmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNoMetrics: where a rank cannot serve its metrics, the others learn that, whatever they are
// in, and the rank does not compute.
func TestNoMetrics(t *testing.T) {
	const bad = "nowhere"
	world := sim.New(sim.Options{})
	for rank := range 2 {
		link := world.Station(fmt.Sprint("host ", rank))
		world.Go(fmt.Sprint("rank ", rank), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(rank) + 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			w, err := splitc.Start(t.Context(), &splitc.Config{Config: job.Config{Job: t.Name(), Rank: rank, Size: 2, NIC: nic}, Layer: "am", HeapSize: 1 << 20})
			if err != nil {
				t.Error(err)
				return
			}
			addr := ""
			c := &Command{World: w, addr: &addr, collector: metrics.NewCollector(nil), forget: func() {}}
			if rank == 0 {
				addr = bad
			}
			err = c.work(t.Context(), func(ctx context.Context) error {
				if rank == 0 {
					t.Error("the rank without metrics computes")
				}
				_, err := splitc.AllSpreadMalloc[int](ctx, w, 2, 1)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "metrics: serve at") || rank == 1 && !errors.Is(err, splitc.ErrRankFailed) {
				t.Errorf("rank %d ends with %v, want that metrics cannot be served", rank, err)
			}
		})
	}
	if err := world.Run(); err != nil {
		t.Error(err)
	}
}

func TestShare(t *testing.T) {
	for n := range 40 {
		for ranks := 1; ranks <= 17; ranks++ {
			next := 0
			for r := range ranks {
				s := Share(n, ranks, r)
				if s.Lo != next || s.Len() < n/ranks || s.Len() > n/ranks+1 {
					t.Fatalf("rank %d of %d has %v of %d", r, ranks, s, n)
				}
				next = s.Hi
			}
			if next != n {
				t.Fatalf("%d ranks have %d of %d", ranks, next, n)
			}
		}
	}
}

// TestSplitmix: the first numbers of the sequence with seed 1234567, as its authors give them.
func TestSplitmix(t *testing.T) {
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := Bits(1234567, uint64(i)); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

func TestUniform(t *testing.T) {
	const n = 10000
	var sum float64
	seen := make([]int, 7)
	for i := range uint64(n) {
		v := Uniform(1, i)
		if v < 0 || v >= 1 {
			t.Fatalf("number %d is %v", i, v)
		}
		sum += v
		seen[Below(2, i, len(seen))]++
	}
	if math.Abs(sum/n-0.5) > 0.02 {
		t.Errorf("the mean of %d numbers is %v", n, sum/n)
	}
	for v, c := range seen {
		if c < n/len(seen)*9/10 {
			t.Errorf("%d came %d times of %d", v, c, n)
		}
	}
}

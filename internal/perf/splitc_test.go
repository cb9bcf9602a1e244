package perf

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

func openSplit(ctx context.Context, w *sim.World, h *Half, nic *vipl.NIC, c Case) (Conn, func(), error) {
	s, err := newSplitConn(ctx, h, nic, c)
	if err != nil {
		return nil, nil, err
	}
	s.pause = func(ns int64) int64 {
		start := w.Now()
		w.Sleep(time.Duration(ns) + simOvershoot) // the world's end shows in what comes next
		return w.Now() - start
	}
	return s, func() { _ = s.w.Poll() }, nil
}

// TestSplitC: every test, kind and layer of the stack does what it is asked for.
func TestSplitC(t *testing.T) {
	sizes := []int{1, 4, 64, 5000, 100_000}
	if !need.Full() {
		sizes = []int{64, 5000}
	}
	plan := Plan{Stacks: []string{"splitc"}, Tests: []string{Latency, Bandwidth, Rate, Read, Write, Primitives, Bulk, Barrier}, Sizes: sizes, Waits: []string{Spin}}
	const pings, streamed = 10, 200
	for _, c := range plan.Cases(1500) {
		simPair(t, c, openSplit, func(ctx context.Context, conn Conn) error {
			rtt := make([]int64, pings)
			if err := conn.PingPong(ctx, rtt); err != nil || timed(c.Test) {
				ways := 2 * int64(simWay)
				if c.Mode == "shm" { // memory that both processes have takes no virtual time
					ways = 0
				}
				if low := slices.Min(rtt); err == nil && low < ways {
					err = fmt.Errorf("a round trip of %d ns", low)
				}
				return err
			}
			n, err := conn.Stream(ctx, streamed)
			if n != streamed {
				t.Errorf("%v: %d messages arrived, want %d", c, n, streamed)
			}
			return err
		}, func(ctx context.Context, conn Conn) error {
			if err := conn.Echo(ctx, pings); err != nil || timed(c.Test) {
				return err
			}
			return conn.Sink(ctx, streamed)
		})
	}
}

// TestSplitCLogP: where computing takes no time there is no overhead, and what remains of a
// round trip is the way, but of puts into memory that both processes have; those who wait
// for stores there are woken by a message. Without pauses many requests share a round trip.
func TestSplitCLogP(t *testing.T) {
	plan := Plan{Stacks: []string{"splitc"}, Tests: []string{LogP}, Waits: []string{Spin}}
	for _, c := range plan.Cases(1500) {
		var s sample
		simPair(t, c, openSplit, func(ctx context.Context, conn Conn) (err error) {
			if err = conn.PingPong(ctx, make([]int64, 2)); err == nil {
				s, err = runSweep(ctx, conn)
			}
			return err
		}, func(ctx context.Context, conn Conn) error {
			if err := conn.Echo(ctx, 2); err != nil {
				return err
			}
			return conn.Sink(ctx, sweepRequests())
		})
		sig, err := signature([]sample{s}, s.rtt)
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		way := float64(simWay) / 1000
		if c.Mode == "shm" && c.Kind == splitPut {
			way = 0
		}
		if math.Abs(sig.SendOverhead) > 0.01 || math.Abs(sig.ReceiveOverhead) > 0.01 || math.Abs(sig.Latency-way) > 0.1 || sig.Gap > way/10 {
			t.Errorf("%v: o_s %g, o_r %g, L %g, g %g, RTT %g; want 0, 0, %g, little", c, sig.SendOverhead, sig.ReceiveOverhead, sig.Latency, sig.Gap, sig.RTT, way)
		}
	}
}

// TestSplitCPlan: primitives are of an int whatever the sizes, and a layer that does not
// exist is named with those that do.
func TestSplitCPlan(t *testing.T) {
	plan := Plan{Stacks: []string{"splitc"}, Tests: []string{Primitives}, Sizes: []int{100}, Waits: []string{Spin}, Layers: []string{"am"}}
	cases := plan.Cases(1500)
	if len(cases) != 10 || cases[0].Size != 4 || cases[0].Mode != "am" {
		t.Errorf("%d cases, the first one %v: want 5 kinds, each one way and two-way, of 4 bytes", len(cases), cases[0])
	}
	plan.Layers = []string{"carrier-pigeon"}
	if err := plan.Validate(); err == nil {
		t.Error("a layer that does not exist is measured")
	}
}

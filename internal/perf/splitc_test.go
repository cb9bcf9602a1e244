package perf

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

func openSplit(ctx context.Context, h *Half, nic *vipl.NIC, c Case) (Conn, func(), error) {
	s, err := newSplitConn(ctx, h, nic, c)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.w.Poll() }, nil
}

// TestSplitC: every test, kind and layer of the stack does what it is asked for.
func TestSplitC(t *testing.T) {
	sizes := []int{1, 4, 64, 5000, 100_000}
	if testing.Short() {
		sizes = []int{64, 5000}
	}
	plan := Plan{Stacks: []string{"splitc"}, Tests: []string{Latency, Bandwidth, Rate, Read, Write, Primitives, Bulk}, Sizes: sizes, Waits: []string{Spin}}
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

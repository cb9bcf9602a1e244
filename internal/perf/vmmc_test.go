package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// simOpen opens an end of a connection on a NIC, and returns also what serves the other end.
type simOpen func(ctx context.Context, w *sim.World, h *Half, nic *vipl.NIC, c Case) (Conn, func(), error)

func openVMMC(ctx context.Context, _ *sim.World, h *Half, nic *vipl.NIC, c Case) (Conn, func(), error) {
	v, err := newVMMCConn(ctx, h, &base{nic: nic}, c)
	if err != nil {
		return nil, nil, err
	}
	return v.as(c.Test), func() { v.p.Poll() }, nil
}

// simPair runs both ends of a connection as processes of a simulated segment.
func simPair(t *testing.T, c Case, open simOpen, client, server func(ctx context.Context, conn Conn) error) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1, Delay: simWay, Limit: time.Minute})
	ctx := t.Context()
	var nics [2]*vipl.NIC
	for i := range nics {
		var err error
		if nics[i], err = vipl.Open(t.Context(), &vipl.Config{Link: w.Station(fmt.Sprint("end ", i)), Seed: uint64(i) + 1}); err != nil {
			t.Fatal(err)
		}
	}
	errs := make([]error, 2)
	left := 2
	for i, run := range []func(context.Context, Conn) error{client, server} {
		said := `{"op":"text","text":"` + nics[1].Addr().String() + `"}` + "\n" // by the other half
		h := &Half{server: i == 1, ctl: newControl(struct {
			io.Reader
			io.Writer
		}{bytes.NewBufferString(said), io.Discard})}
		w.Go(fmt.Sprint("end ", i), func() {
			conn, serve, err := open(ctx, w, h, nics[i], c)
			if err == nil {
				err = run(ctx, conn)
				left--
				for left > 0 && err == nil { // serve the other end
					serve()
					err = w.Sleep(simWay)
				}
				err = errors.Join(err, conn.Close())
			}
			errs[i] = err
		})
	}
	if err := errors.Join(w.Run(), errs[0], errs[1]); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
}

// TestVMMC passes messages of many sizes in each test, waiting in both ways.
func TestVMMC(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 7, 64, 128, 129, 5000, 100_000}
	if !need.Full() {
		sizes = []int{1, 3, 64, 5000}
	}
	plan := Plan{Stacks: []string{"vmmc"}, Tests: []string{Latency, Bandwidth, Bidirectional, Rate, Overhead}, Sizes: sizes}
	for _, c := range plan.Cases(1500) {
		pings, streamed := 10, 40
		if c.Size == 1 && c.Wait == Spin && c.Test == Latency {
			pings = 300 // more than the number in one byte counts
		}
		simPair(t, c, openVMMC, func(ctx context.Context, conn Conn) error {
			rtt := make([]int64, pings)
			if err := conn.PingPong(ctx, rtt); err != nil || timed(c.Test) {
				if low := slices.Min(rtt); err == nil && c.Test == Latency && low < 2*int64(simWay) {
					err = fmt.Errorf("a round trip of %d ns", low)
				}
				return err
			}
			want := streamed
			if c.Test == Bidirectional {
				want *= 2
			}
			n, err := conn.Stream(ctx, streamed)
			if n != want {
				t.Errorf("%v: %d messages arrived, want %d", c, n, want)
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

// TestVMMCOverhead: posting takes no time where computing takes none, a short send neither;
// a long synchronous one the way there and back.
func TestVMMCOverhead(t *testing.T) {
	plan := Plan{Stacks: []string{"vmmc"}, Tests: []string{Overhead}, Waits: []string{Spin}, Sizes: []int{64, 10_000}}
	for _, c := range plan.Cases(1500) {
		simPair(t, c, openVMMC, func(ctx context.Context, conn Conn) error {
			took := make([]int64, 3)
			err := conn.PingPong(ctx, took)
			waits := c.Mode == modeSync && c.Size == 10_000
			for _, ns := range took {
				if (ns >= 2*int64(simWay)) != waits {
					t.Errorf("%v: %d ns", c, ns)
				}
			}
			return err
		}, func(ctx context.Context, conn Conn) error { return conn.Echo(ctx, 3) })
	}
}

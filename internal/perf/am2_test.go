package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// simWay is the way from one station of amPair to another.
const simWay = 20 * time.Microsecond

// simOvershoot is how much longer than asked a pause takes.
const simOvershoot = 3 * time.Microsecond

// amPair runs both ends of a connection as processes of a simulated segment.
func amPair(t *testing.T, c Case, client, server func(w *sim.World, a *amConn) error) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1, Delay: simWay, Limit: time.Minute})
	open := func(name string, isServer bool, from io.Reader, to io.Writer) *amConn {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station(name), Seed: uint64(len(name))})
		if err != nil {
			t.Fatal(err)
		}
		h := &Half{server: isServer, ctl: newControl(struct {
			io.Reader
			io.Writer
		}{from, to})}
		a, err := newAMConn(h, &base{nic: nic}, c)
		if err != nil {
			t.Fatal(err)
		}
		a.pause = func(ns int64) int64 {
			start := w.Now()
			w.Sleep(time.Duration(ns) + simOvershoot) // the world's end shows in what comes next
			return w.Now() - start
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	var told bytes.Buffer // the server's name
	ends := []*amConn{open("server", true, strings.NewReader(`{"op":"text"}`+"\n"), &told)}
	ends = append(ends, open("client", false, &told, io.Discard))
	errs := make([]error, 2)
	for i, run := range []func(*sim.World, *amConn) error{server, client} {
		w.Go(fmt.Sprint("end ", i), func() { errs[i] = run(w, ends[i]) })
	}
	if err := errors.Join(w.Run(), errs[0], errs[1]); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
}

// TestActiveMessages passes messages of each kind in each way, and counts those
// that came.
func TestActiveMessages(t *testing.T) {
	for size, kind := range map[int]string{1: kindShort, 16: kindShort, 64: kindShort, 65: kindMedium, 4096: kindMedium, 4097: kindBulk, 1 << 20: kindBulk} {
		plan := Plan{Stacks: []string{"am2"}, Tests: []string{Latency, Bandwidth, Rate}, Waits: []string{Spin}, Sizes: []int{size}}
		for _, c := range plan.Cases(1500) {
			if c.Kind != kind {
				t.Errorf("%v, want a %s one", c, kind)
			}
			const pings, streamed = 5, 100
			amPair(t, c, func(w *sim.World, a *amConn) error {
				rtt := make([]int64, pings)
				if err := a.PingPong(t.Context(), rtt); err != nil {
					return err
				}
				for _, ns := range rtt {
					if ns < 2*int64(simWay) {
						t.Errorf("%v: a round trip of %d ns", c, ns)
					}
				}
				n, err := a.Stream(t.Context(), streamed)
				if n != streamed {
					t.Errorf("%v: %d messages arrived", c, n)
				}
				return err
			}, func(w *sim.World, a *amConn) error {
				return errors.Join(a.Echo(t.Context(), pings), a.Sink(t.Context(), streamed))
			})
		}
	}
}

// TestCredits: so many requests are under way at most, and no fewer.
func TestCredits(t *testing.T) {
	const streamed = 64
	for _, credits := range []int{4, 64} {
		c := Case{Stack: "am2", Test: Rate, Credits: credits, Size: 16}
		amPair(t, c, func(w *sim.World, a *amConn) error {
			if err := a.PingPong(t.Context(), make([]int64, 1)); err != nil { // connects
				return err
			}
			start := w.Now()
			_, err := a.Stream(t.Context(), streamed)
			took := time.Duration(w.Now() - start)
			// Round trips of at least two ways, and up to another for requests
			// that wait to be coalesced with others.
			trips := streamed / credits
			if least := time.Duration(trips) * 2 * simWay; took < least || took > 2*least+2*simWay {
				t.Errorf("%d requests took %v with %d credits, want %d round trips of %v", streamed, took, credits, trips, 2*simWay)
			}
			return err
		}, func(w *sim.World, a *amConn) error {
			return errors.Join(a.Echo(t.Context(), 1), a.Sink(t.Context(), streamed))
		})
	}
}

// TestLogPOfSimulatedMachine: where computing takes no time there is no
// overhead, and what remains is the way.
func TestLogPOfSimulatedMachine(t *testing.T) {
	c := Case{Stack: "am2", Test: LogP, Credits: 64, Size: 16}
	var s sample
	amPair(t, c, func(w *sim.World, a *amConn) (err error) {
		if err = a.PingPong(t.Context(), make([]int64, 2)); err == nil {
			s, err = runSweep(t.Context(), a)
		}
		return err
	}, func(w *sim.World, a *amConn) error {
		return errors.Join(a.Echo(t.Context(), 2), a.Sink(t.Context(), sweepRequests()))
	})
	if s.count != sweepRequests() {
		t.Errorf("%d requests were sent, want %d", s.count, sweepRequests())
	}
	sig, err := signature([]sample{s}, s.rtt)
	if err != nil {
		t.Fatal(err)
	}
	way := float64(simWay) / 1000
	if math.Abs(sig.SendOverhead) > 0.01 || math.Abs(sig.ReceiveOverhead) > 0.01 || math.Abs(sig.Latency-way) > 0.1 || math.Abs(sig.RTT-2*way) > 0.1 {
		t.Errorf("o_s %g, o_r %g, L %g, RTT %g; want 0, 0, %g, %g", sig.SendOverhead, sig.ReceiveOverhead, sig.Latency, sig.RTT, way, 2*way)
	}
	if least := 2 * way / 64; sig.Gap < least*0.9 || sig.Gap > 3*least {
		t.Errorf("the gap is %g with 64 credits a round trip of %g", sig.Gap, 2*way)
	}
}

// TestBurstsPoll: who pauses for longer than a round trip handles replies between
// requests, about one each. A poll may find but the completion of a send, so that
// a reply may be one late.
func TestBurstsPoll(t *testing.T) {
	c := Case{Stack: "am2", Test: LogP, Credits: 64, Size: 16}
	var replies []int
	amPair(t, c, func(w *sim.World, a *amConn) error {
		if err := a.PingPong(t.Context(), make([]int64, 1)); err != nil {
			return err
		}
		sleep := a.pause
		a.pause = func(ns int64) int64 {
			replies = append(replies, a.pongs)
			return sleep(ns)
		}
		return a.Bursts(t.Context(), []burst{{size: 8, times: 1, delay: 3 * simWay}}, func(burst, int64, int64) {})
	}, func(w *sim.World, a *amConn) error {
		return errors.Join(a.Echo(t.Context(), 1), a.Sink(t.Context(), 8))
	})
	if last := replies[len(replies)-1]; len(replies) != 9 || last < 6 { // the first in the rest before
		t.Errorf("%v replies handled at the pauses, want 6 or 7 at the last of 9", replies)
	}
}

// TestBurstsEnd: bursts end with their context when nobody answers.
func TestBurstsEnd(t *testing.T) {
	c := Case{Stack: "am2", Test: LogP, Credits: 4, Size: 16}
	amPair(t, c, func(w *sim.World, a *amConn) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := a.Bursts(ctx, []burst{{size: 8, times: 1}}, func(burst, int64, int64) { t.Error("a burst was noted") })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("8 requests with 4 credits: %v, want the end of the context", err)
		}
		return nil
	}, func(w *sim.World, a *amConn) error { return nil })
}

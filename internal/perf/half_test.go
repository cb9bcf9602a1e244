package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fakeStack is a stack whose messages take a microsecond and go nowhere.
type fakeStack struct {
	openErr [2]error // of the client, of the server
	runErr  [2]error
	lossy   [2]*atomic.Int32 // how many of the next connections lose a frame, which this side notices
	opened  *atomic.Int32    // connections that have not been closed
	wrap    func(*fakeConn) Conn
}

func (s fakeStack) Cases(_ *Plan, test string, mtu, size int) []Case {
	return []Case{{Stack: "fake", Test: test, Wait: Block, MTU: mtu, Size: size}}
}

func (s fakeStack) Open(_ context.Context, h *Half, c Case) (Conn, error) {
	i := 0
	if h.server {
		i = 1
	}
	if s.openErr[i] != nil {
		return nil, s.openErr[i]
	}
	side := []string{"client", "server"}
	if text, err := h.Exchange(side[i]); err != nil {
		return nil, err
	} else if text != side[1-i] {
		return nil, fmt.Errorf("the other half is %q", text)
	}
	s.opened.Add(1)
	runErr := s.runErr[i]
	if l := s.lossy[i]; l != nil && l.Add(-1) >= 0 {
		runErr = errLost
	}
	conn := &fakeConn{runErr: runErr, opened: s.opened, counters: Counters{Retransmits: 1, Drops: uint64(i)}}
	if s.wrap != nil {
		return s.wrap(conn), nil
	}
	return conn, nil
}

type fakeConn struct {
	runErr   error
	opened   *atomic.Int32
	counters Counters
}

func (c *fakeConn) PingPong(_ context.Context, rtt []int64) error {
	for i := range rtt {
		rtt[i] = int64(1000 + i%3)
	}
	return c.pass(len(rtt))
}

func (c *fakeConn) pass(n int) error {
	for end := time.Now().Add(time.Duration(n) * time.Microsecond); time.Now().Before(end); {
	}
	return c.runErr
}

func (c *fakeConn) Echo(context.Context, int) error                          { return c.runErr }
func (c *fakeConn) Stream(_ context.Context, n int) (arrived int, err error) { return n, c.pass(n) }
func (c *fakeConn) Sink(context.Context, int) error                          { return c.runErr }
func (c *fakeConn) Counters() Counters                                       { return c.counters }
func (c *fakeConn) Close() error                                             { c.opened.Add(-1); return nil }

// useStack makes fake the only stack for one test.
func useStack(t *testing.T, fake fakeStack) *fakeStack {
	t.Helper()
	fake.opened = new(atomic.Int32)
	saved := stacks
	stacks = saved[:0:0]
	stacks = append(stacks, saved[0])
	stacks[0].name, stacks[0].stack = "fake", fake
	t.Cleanup(func() {
		stacks = saved
		if n := fake.opened.Load(); n != 0 {
			t.Errorf("%d connections were left open", n)
		}
	})
	return &fake
}

// quick is a plan of three samples of a millisecond for each test.
var quick = Plan{Rounds: 3, Sample: time.Millisecond}

// controlPair returns both ends of a control channel.
func controlPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	files, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, f := range files {
		if ends[i], err = fileConn(f); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// measure runs both halves over a socket pair and returns what each of them did.
func measure(t *testing.T, plan Plan) (records []Record, clientErr, serverErr error) {
	t.Helper()
	return measureCases(t, plan, plan.Cases(1500))
}

func measureCases(t *testing.T, plan Plan, cases []Case) (records []Record, clientErr, serverErr error) {
	t.Helper()
	a, b := controlPair(t)
	served := make(chan error)
	go func() {
		served <- NewHalf("", netip.Addr{}, b).Serve(t.Context())
		b.Close()
	}()
	client := NewHalf("", netip.Addr{}, a)
	client.line = func() float64 { return 55 } // whatever else the machine does
	records, clientErr = client.Measure(t.Context(), plan, cases, nil)
	a.Close()
	return records, clientErr, <-served
}

func TestMeasure(t *testing.T) {
	useStack(t, fakeStack{})
	records, err, serverErr := measure(t, quick)
	if err != nil || serverErr != nil {
		t.Fatal(err, serverErr)
	}
	tests := slices.DeleteFunc(slices.Clone(Tests), func(test string) bool { return !measures("fake", test) })
	if len(records) != len(tests) {
		t.Fatalf("%d records, want one of each test: %+v", len(records), records)
	}
	for i, r := range records {
		if r.Test != tests[i] || r.Count < 3*minMessages {
			t.Errorf("record %d is of %s with %d messages", i, r.Test, r.Count)
		}
		samples := r.Retransmits / 2 // each half counts one a sample
		if samples < 2 || r.Drops != samples {
			t.Errorf("%s: %d retransmits and %d drops, want 2 and 1 for each sample", r.Test, r.Retransmits, r.Drops)
		}
	}
	if r := records[0]; r.Min != 0.5 || r.P50 != 0.5005 || r.P99 != 0.501 || r.Mbits+r.Rate != 0 {
		t.Errorf("latency of round trips of 1000, 1001 and 1002 ns: %+v", r)
	}
	if r := records[1]; r.Mbits <= 0 || r.Mbits > 8.4e6 || r.P50+r.Rate != 0 {
		t.Errorf("bandwidth of a message of 1 MiB a microsecond: %+v", r)
	}
	if r := records[2]; r.Rate <= 0 || r.Rate > 1e6 || r.P50+r.Mbits != 0 {
		t.Errorf("rate of a message a microsecond: %+v", r)
	}
}

func TestMeasureCounts(t *testing.T) {
	useStack(t, fakeStack{})
	plan := quick
	plan.Count = 10
	records, err, _ := measure(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Count%4 != 0 || r.Count > 2*plan.Rounds*4 {
			t.Errorf("%s: %d messages, want 4 a sample", r.Test, r.Count)
		}
	}
}

func TestMeasureSurvivesFailures(t *testing.T) {
	broken := errors.New("it is broken")
	for name, fake := range map[string]fakeStack{
		"client cannot open": {openErr: [2]error{broken, nil}},
		"server cannot open": {openErr: [2]error{nil, broken}},
		"neither can open":   {openErr: [2]error{broken, broken}},
		"client cannot run":  {runErr: [2]error{broken, nil}},
		"server cannot run":  {runErr: [2]error{nil, broken}},
	} {
		t.Run(name, func(t *testing.T) {
			useStack(t, fake)
			records, err, serverErr := measure(t, quick)
			if len(records) != 0 || err == nil {
				t.Fatalf("records %+v, error %v", records, err)
			}
			if text := err.Error(); !strings.HasPrefix(text, "all 3 measurements failed: ") || strings.Count(text, broken.Error()) != 1 {
				t.Errorf("error %q does not say once that %v", err, broken)
			}
			if serverErr != nil {
				t.Errorf("the server ended with %v", serverErr)
			}
		})
	}
}

// TestMeasureRepeatsLost: a lost frame costs its sample a repetition and nothing else,
// whichever side notices.
func TestMeasureRepeatsLost(t *testing.T) {
	for name, side := range map[string]int{"client": 0, "server": 1} {
		t.Run(name, func(t *testing.T) {
			fake := fakeStack{}
			fake.lossy[side] = new(atomic.Int32)
			fake.lossy[side].Store(maxTries + 1)
			useStack(t, fake)
			records, err, serverErr := measure(t, quick)
			if err != nil || serverErr != nil {
				t.Fatal(err, serverErr)
			}
			for _, r := range records {
				if samples := r.Retransmits / 2; samples != uint64(quick.Rounds) {
					t.Errorf("%s: %d samples, want %d", r.Test, samples, quick.Rounds)
				}
			}
		})
	}
}

// TestMeasureOnlyLosses: a wire on which no sample passes is given up.
func TestMeasureOnlyLosses(t *testing.T) {
	useStack(t, fakeStack{runErr: [2]error{nil, errLost}})
	records, err, serverErr := measure(t, quick)
	if len(records) != 0 || serverErr != nil || err == nil || !strings.Contains(err.Error(), errLost.Error()) {
		t.Errorf("records %v, errors %v and %v", records, err, serverErr)
	}
}

func TestMeasureWithoutServer(t *testing.T) {
	useStack(t, fakeStack{})
	a, b := controlPair(t)
	b.Close()
	records, err := NewHalf("", netip.Addr{}, a).Measure(t.Context(), quick, quick.Cases(1500), nil)
	if !errors.Is(err, errControl) || len(records) != 0 {
		t.Errorf("records %v, error %v, want errControl", records, err)
	}
}

func TestServeRefuses(t *testing.T) {
	useStack(t, fakeStack{})
	for name, line := range map[string]string{
		"a run before open": `{"op":"run","case":{"stack":"fake"},"count":1}`,
		"an unknown word":   `{"op":"dance"}`,
		"no JSON":           `hello`,
	} {
		in := struct {
			io.Reader
			io.Writer
		}{strings.NewReader(line + "\n"), io.Discard}
		if err := NewHalf("", netip.Addr{}, in).Serve(t.Context()); !errors.Is(err, errControl) {
			t.Errorf("%s: %v, want errControl", name, err)
		}
	}
}

func TestMeasureStops(t *testing.T) {
	useStack(t, fakeStack{})
	a, b := controlPair(t)
	defer a.Close()
	go func() {
		NewHalf("", netip.Addr{}, b).Serve(context.Background())
		b.Close()
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var seen []string
	_, err := NewHalf("", netip.Addr{}, a).Measure(ctx, quick, quick.Cases(1500), func(done, total int, last Case) {
		seen = append(seen, fmt.Sprint(last.Test, done, total))
		if done == 2 {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause of the cancellation", err)
	}
	if want := []string{"latency1 9", "bandwidth2 9"}; !slices.Equal(seen, want) {
		t.Errorf("progress %q, want %q", seen, want)
	}
}

func TestLimit(t *testing.T) {
	useStack(t, fakeStack{})
	plan := quick
	plan.Limit = time.Nanosecond
	records, err, _ := measure(t, plan)
	if err != nil && !errors.Is(err, errNoSample) {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Retransmits != 2 {
			t.Errorf("%s: %d samples, want 1", r.Test, r.Retransmits/2)
		}
	}
}

// TestStrictLimit: a strict limit leaves out cases without a failure, and measures sizes in the
// order of the plan.
func TestStrictLimit(t *testing.T) {
	useStack(t, fakeStack{})
	plan := quick
	plan.Tests, plan.Sizes, plan.Strict = []string{Latency}, []int{64, 1 << 20, 4096}, true
	a, b := controlPair(t)
	defer a.Close()
	go func() {
		NewHalf("", netip.Addr{}, b).Serve(context.Background())
		b.Close()
	}()
	var sizes []int
	_, err := NewHalf("", netip.Addr{}, a).Measure(t.Context(), plan, plan.Cases(1500), func(_, _ int, last Case) {
		sizes = append(sizes, last.Size)
	})
	if err != nil || len(sizes) < 3 || !slices.Equal(sizes[:3], plan.Sizes) {
		t.Errorf("measured sizes %v, error %v, want the plan's order %v", sizes, err, plan.Sizes)
	}
	plan.Limit = time.Nanosecond
	if records, err, serverErr := measure(t, plan); len(records) != 0 || err != nil || serverErr != nil {
		t.Errorf("after the limit: records %v, errors %v and %v, want none", records, err, serverErr)
	}
}

// TestFailures: each cause is said once, with what it has ended, and errors.Is knows all.
func TestFailures(t *testing.T) {
	latency, rate := Case{Stack: "vipl", Test: Latency, Size: 64}, Case{Stack: "vipl", Test: Rate, Size: 64}
	var f failures
	if err := f.err(3); err != nil {
		t.Errorf("nothing has failed: %v", err)
	}
	f.add(latency, fs.ErrExist)
	if got, want := f.err(1).Error(), latency.String()+": file already exists"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.add(rate, fs.ErrExist)
	if got, want := f.err(2).Error(), "all 2 measurements failed: file already exists"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.add(latency, fs.ErrClosed)
	err := f.err(3)
	want := latency.String() + "; " + rate.String() + ": file already exists\n" + latency.String() + ": file already closed"
	if err.Error() != want || !errors.Is(err, fs.ErrExist) || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestBothHalves: what both halves say is said once, and what they say otherwise is not lost.
func TestBothHalves(t *testing.T) {
	for _, c := range []struct {
		own, other error
		want       string
	}{
		{fs.ErrExist, &peerError{text: "file already exists"}, "both halves: file already exists"},
		{fs.ErrExist, &peerError{text: "no"}, "file already exists\nperf: the other half: no"},
		{fs.ErrExist, &peerError{text: "perf: the other half: file already exists"}, "file already exists"},
		{nil, &peerError{text: "no"}, "perf: the other half: no"},
		{fs.ErrExist, nil, "file already exists"},
		{fs.ErrExist, errControl, "file already exists\n" + errControl.Error()},
	} {
		if got := bothHalves(c.own, c.other); got.Error() != c.want || c.own != nil && !errors.Is(got, c.own) {
			t.Errorf("%v and %v: %q, want %q", c.own, c.other, got, c.want)
		}
	}
	if err := bothHalves(nil, nil); err != nil {
		t.Error(err)
	}
}

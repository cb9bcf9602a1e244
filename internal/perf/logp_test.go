package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// machine is a LogP machine, in microseconds: a processor that sends requests
// and handles replies, and a way on which messages follow each other at least a
// gap apart.
type machine struct {
	os, or, l, g float64
	credits      int
}

func (m machine) rtt() float64 { return 2 * (m.os + m.l + m.or) }

// burst returns the time that each of n requests takes the sender, with a delay
// after each. Like AM-II it looks for replies at each request, and when no
// request may be under way beside those that are it waits for one.
func (m machine) burst(n int, delay float64) float64 {
	var replies []float64 // when each will have come
	now, last := 0.0, math.Inf(-1)
	handle := func() {
		now = max(now, replies[0]) + m.or
		replies = replies[1:]
	}
	for range n {
		for len(replies) > 0 && (replies[0] <= now || len(replies) == m.credits) {
			handle()
		}
		now += m.os
		last = max(now, last+m.g) // the request is on its way
		replies = append(replies, last+m.l+m.or+m.os+m.l)
		now += delay
	}
	return now / float64(n)
}

// points returns the machine's signature at the points of the sweep.
func (m machine) points() (points []BurstPoint) {
	for _, b := range sweep {
		delay := float64(b.delay) / 1000
		points = append(points, BurstPoint{Burst: b.size, Delay: delay, Time: m.burst(b.size, delay)})
	}
	return points
}

// TestCharacterize finds the parameters of machines that have the figures of
// the papers: those of the virtual-network paper's figure 5, and one that is
// limited by its processor, whose gap is the sum of its overheads.
func TestCharacterize(t *testing.T) {
	for _, tt := range []struct {
		name string
		machine
		gap float64
	}{
		{"AM-II", machine{4.09, 4.28, 12.6, 15.98, 64}, 15.98},
		{"GAM", machine{1.90, 4.00, 5.5, 5.8, 64}, 5.9},
		{"one of today", machine{0.8, 0.4, 0.6, 1.5, 64}, 1.5},
		{"its way costs nothing", machine{1, 0.5, 0, 0, 64}, 1.5},
		// Four requests a round trip, but for the moment between a reply's coming
		// and its being handled: the sender is not idle in between.
		{"few credits", machine{0.8, 0.4, 10, 1, 4}, 5.6},
	} {
		s, err := characterize(tt.points(), tt.rtt())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := []float64{s.SendOverhead, s.ReceiveOverhead, s.Latency, s.Gap, s.RTT}
		want := []float64{tt.os, tt.or, tt.l, tt.gap, tt.rtt()}
		for i, what := range []string{"o_s", "o_r", "L", "g", "RTT"} {
			if math.Abs(got[i]-want[i]) > 0.01 {
				t.Errorf("%s: %s is %.3f, want %.3f", tt.name, what, got[i], want[i])
			}
		}
	}
}

// TestCharacterizeShared: requests of a burst share what a lone one pays alone,
// so that the gap is less than the send overhead, and those that are not alone
// are no measure of the receive overhead; one disturbed curve does not count.
func TestCharacterizeShared(t *testing.T) {
	var points []BurstPoint
	for _, b := range sweep {
		p := BurstPoint{Burst: b.size, Delay: float64(b.delay) / 1000}
		p.Time = 0.5 + 1.5/float64(b.size)
		if p.Delay > 0 {
			p.Time = 2 + 0.75 + p.Delay
		}
		if p.Delay > 0 && p.Delay <= 5 {
			p.Time--
		}
		if p.Delay == 20 {
			p.Time -= 30
		}
		points = append(points, p)
	}
	s, err := characterize(points, 5)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("o_s %.2f, o_r %.2f, L %.2f, g %.2f", s.SendOverhead, s.ReceiveOverhead, s.Latency, s.Gap)
	if want := "o_s 2.00, o_r 0.75, L -0.25, g 0.50"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCharacterizeRefuses(t *testing.T) {
	amvia := machine{3, 5, 45, 60, 64} // its gap is longer than the longest delay
	whole := amvia.points()
	for _, tt := range []struct {
		name   string
		points []BurstPoint
		want   error
	}{
		{"nothing", nil, errNoBurst},
		{"no lone request", whole[1:], errNoBurst},
		{"no burst without a delay", whole[10:], errNoBurst},
		{"one burst", whole[:1], errNoBurst},
		{"the same burst twice", []BurstPoint{whole[0], whole[0]}, errNoBurst},
		{"no delay", whole[:10], errNoDelay},
		{"delays within the gap", whole, errNoDelay},
	} {
		if _, err := characterize(tt.points, amvia.rtt()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestSignatureMergesSamples(t *testing.T) {
	m := machine{0.8, 0.4, 0.6, 1.5, 64}
	var samples []sample
	for _, off := range []float64{0, 3, -0.1, 0.1, -0.2} { // one of them disturbed
		s := sample{}
		for _, p := range m.points() {
			s.bursts = append(s.bursts, p.Time+off)
		}
		samples = append(samples, s)
	}
	rtt, err := histogram([]int64{3500, 3600, 3700, 90000, 3550})
	if err != nil {
		t.Fatal(err)
	}
	s, err := signature(samples, rtt)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Points) != len(sweep) || s.Points[0] != (BurstPoint{1, 0, 0.8}) || math.Abs(s.RTT-3.6) > 0.01 {
		t.Errorf("%d points, the first %+v, RTT %g; want %d, o_s 0.8 of the median sample, 3.6", len(s.Points), s.Points[0], s.RTT, len(sweep))
	}
}

// burstConn is a fakeConn whose requests cost what those of a machine do.
type burstConn struct {
	*fakeConn
	machine
	sent, told *atomic.Int64 // requests, and what the other half is told to take
}

func (c *burstConn) Bursts(_ context.Context, all []burst, note func(b burst, sent, answered int64)) error {
	for _, b := range all {
		for range b.times {
			c.sent.Add(int64(b.size))
			took := int64(1000 * float64(b.size) * c.burst(b.size, float64(b.delay)/1000))
			note(b, took, took+int64(1000*(c.rtt()-c.os)))
		}
	}
	return c.runErr
}

func (c *burstConn) Sink(_ context.Context, n int) error {
	c.told.Add(int64(n))
	return c.runErr
}

// TestMeasureLogP runs sweeps through both halves.
func TestMeasureLogP(t *testing.T) {
	m := machine{0.8, 0.4, 0.6, 1.5, 64}
	var sent, told atomic.Int64
	useStack(t, fakeStack{wrap: func(c *fakeConn) Conn { return &burstConn{c, m, &sent, &told} }})
	fake := Case{Stack: "fake", Test: LogP, Wait: Spin, MTU: 1500, Size: 16}
	var records []Record
	for range 50 { // samples in which the machine's state changed do not count
		var err, serverErr error
		records, err, serverErr = measureCases(t, quick, []Case{fake})
		if err != nil && !errors.Is(err, errNoSample) || serverErr != nil {
			t.Fatal(err, serverErr)
		}
		if len(records) > 0 {
			break
		}
	}
	if len(records) == 0 {
		t.Fatal("the machine's state changed during every sample of 50 runs")
	}
	r := records[0]
	if r.LogP == nil || r.P50+r.Mbits+r.Rate != 0 || r.Count < sweepRequests() {
		t.Fatalf("record %+v", r)
	}
	if s := r.LogP; math.Abs(s.SendOverhead-m.os) > 0.01 || math.Abs(s.Gap-m.g) > 0.01 || math.Abs(s.RTT-m.rtt()) > 0.01 {
		t.Errorf("%+v, want the parameters of %+v", *s, m)
	}
	if sent.Load() != told.Load() {
		t.Errorf("%d requests were sent, and the other half was told to take %d", sent.Load(), told.Load())
	}
}

// TestMeasureLogPWithoutBursts: a stack that has none fails, and says so.
func TestMeasureLogPWithoutBursts(t *testing.T) {
	useStack(t, fakeStack{})
	_, err, _ := measureCases(t, quick, []Case{{Stack: "fake", Test: LogP}})
	if err == nil || !strings.Contains(err.Error(), "bursts cannot be measured") {
		t.Errorf("error %v", err)
	}
}

func TestPause(t *testing.T) {
	now := int64(1000)
	clock := func() int64 { now += 30; return now }
	if took := pause(clock, 100); took != 120 {
		t.Errorf("a pause of 100 ns by a clock of 30 took %d, want 120", took)
	}
}

const wantLogPTable = `logp, 16 B messages, MTU 1500
          stack     level   wait  o_s us  o_r us   L us   g us  RTT us  line ns
      am2 short  delivery   spin    4.09    4.28  12.60  15.98   41.94       55
  am2/udp short  delivery  block    1.00    2.00  -0.50   0.70    5.00       55

`

func TestLogPTable(t *testing.T) {
	am := Case{Stack: "am2", Test: LogP, Reliability: "delivery", Wait: Spin, Link: "ring", Kind: kindShort, Credits: usualCredits, MTU: 1500, Size: 16}
	udp := am
	udp.Link, udp.Wait = "udp", Block
	records := []Record{
		{Case: am, LineNs: 55, LogP: &Signature{SendOverhead: 4.09, ReceiveOverhead: 4.28, Latency: 12.6, Gap: 15.98, RTT: 41.94}},
		{Case: udp, LineNs: 55, LogP: &Signature{SendOverhead: 1, ReceiveOverhead: 2, Latency: -0.5, Gap: 0.7, RTT: 5}},
	}
	var table, summary strings.Builder
	if err := WriteTable(&table, records); err != nil {
		t.Fatal(err)
	}
	if table.String() != wantLogPTable {
		t.Errorf("table is\n%s\nwant\n%s", table.String(), wantLogPTable)
	}
	if err := WriteSummary(&summary, records); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(summary.String(), "am2") {
		t.Errorf("a summary of nothing but logp is\n%s", summary.String())
	}
}

func TestSignaturePanel(t *testing.T) {
	m := machine{0.8, 0.4, 0.6, 1.5, 64}
	r := Record{Case: Case{Stack: "am2", Test: LogP, Wait: Spin, Link: "ring", Size: 16}, LogP: &Signature{Points: m.points()}}
	p := signaturePanel(r)
	var got []string
	for _, s := range p.Series {
		last := s.Points[len(s.Points)-1]
		got = append(got, fmt.Sprintf("%s %d %.0f %.1f", s.Name, len(s.Points), last.X, last.Value))
	}
	want := []string{"50 µs apart 6 32 51.2", "20 µs apart 7 64 21.2", "10 µs apart 8 128 11.2", "5 µs apart 9 256 6.2",
		"2 µs apart 10 512 3.2", "1 µs apart 10 512 2.2", "no delay 10 512 1.3"}
	if !slices.Equal(got, want) {
		t.Errorf("curves %q, want %q", got, want)
	}
}

// TestSweep: what a sample sends stays small, and no point of the method is
// missing.
func TestSweep(t *testing.T) {
	if n, took := sweepRequests(), time.Duration(0); n > 100000 {
		t.Errorf("%d requests a sample", n)
	} else {
		for _, b := range sweep {
			delays := time.Duration(b.size) * b.delay
			if delays > 2*time.Millisecond {
				t.Errorf("the delays of a burst of %d take %v", b.size, delays)
			}
			took += time.Duration(b.times) * (delays + sweepRest)
		}
		if took > sampleTimeout/4 {
			t.Errorf("the delays of a sample take %v of %v", took, sampleTimeout)
		}
	}
	if bound := timeoutOf(LogP, DefaultSample); bound < 4*sampleTimeout || bound > 20*sampleTimeout || timeoutOf(Rate, 0) != sampleTimeout || timeoutOf(Rate, time.Minute) < sampleTimeout+time.Minute {
		t.Errorf("a sample may take %v: want a slice of a processor for each of %d bursts", bound, sweepBursts())
	}
	if first := fmt.Sprint(sweep[0]); first != "{1 128 0}" {
		t.Errorf("the sweep begins with %s", first)
	}
}

package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	maxRTT      = int64(10 * time.Second) // longest that a histogram holds
	maxTries    = 3                       // failed samples of a case in a row before it is given up
	maxLost     = 20                      // repetitions of a sample in which a frame was lost
	lastRounds  = 8                       // additional rounds for cases without a sample
	maxGrowth   = 16                      // maximum factor by which a disturbed sample may lengthen the next ones
	minMessages = 4                       // in a sample
	maxMessages = 1 << 20                 // in a sample
)

// sample is one short run of a case.
type sample struct {
	rtt       *hdrhistogram.Histogram // times in nanoseconds; only of timed tests and logp
	bursts    []float64               // logp only: microseconds of each request, in the order of sweep
	perSecond float64                 // messages per second; 0 for latency
	count     int
	line      float64 // cache-line time before and after the sample, in nanoseconds
	Counters
}

// measurement is a case and its samples.
type measurement struct {
	Case
	each    float64 // shortest time of a message so far, in nanoseconds; 0 until calibrated
	samples []sample
	failed  int   // consecutive failures
	err     error // the last failure
}

// Progress is called with the number of samples taken so far and the minimum number of samples in
// total. It is also called when a sample has to be repeated.
type Progress func(done, total int, last Case)

// coordinator runs a plan's measurements from the client half.
type coordinator struct {
	*Half
	plan     Plan
	all      []*measurement
	rtt      []int64
	done     int // samples
	progress Progress
}

// Measure takes the samples of all cases in turn and returns one record per case, in the cases'
// order. Failed cases are missing from the records and named in the error. The other half must be
// in Serve. Measure makes Serve return.
func (h *Half) Measure(ctx context.Context, plan Plan, cases []Case, progress Progress) ([]Record, error) {
	c := &coordinator{Half: h, plan: plan.withDefaults(), progress: progress}
	for _, cs := range cases {
		c.all = append(c.all, &measurement{Case: cs})
	}
	inOrder := slices.Clone(c.all)
	if plan.Strict {
		c.sortBySizes()
	}
	err := c.rounds(ctx)
	if err == nil {
		err = h.ctl.send(message{Op: opQuit})
	}
	if plan.Strict {
		inOrder = slices.DeleteFunc(inOrder, func(m *measurement) bool { return m.err == nil && len(m.samples) == 0 })
	}
	records, failures := summarize(inOrder)
	return records, errors.Join(err, failures)
}

// sortBySizes sorts the measurements by their sizes, in the plan's order of sizes.
func (c *coordinator) sortBySizes() {
	slices.SortStableFunc(c.all, func(a, b *measurement) int {
		return slices.Index(c.plan.Sizes, a.Size) - slices.Index(c.plan.Sizes, b.Size)
	})
}

// rounds takes Rounds samples of every case. It repeats dropped samples in as many further rounds,
// and adds some rounds for cases that have no sample at all.
func (c *coordinator) rounds(ctx context.Context) error {
	start := time.Now()
	for round := range 2*c.plan.Rounds + lastRounds {
		wanting := c.wanting(round)
		for i, m := range wanting {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			late := c.plan.Limit > 0 && time.Since(start) > c.plan.Limit
			if late && (c.plan.Strict || len(m.samples) > 0) {
				continue
			}
			if err := c.take(ctx, m); err != nil {
				return err
			}
			c.done = round*len(c.all) + i + 1
			c.tell(m)
		}
		if len(wanting) == 0 {
			break
		}
	}
	return nil
}

// tell reports the progress. The report also shows that this half is alive.
func (c *coordinator) tell(m *measurement) {
	if c.progress != nil {
		total := len(c.all) * c.plan.Rounds
		c.progress(min(c.done, total), total, m.Case)
	}
}

// wanting returns the measurements that need another sample. In the first rounds these are all
// measurements, then those with too few samples in the common state, and in the last rounds those
// without any sample.
func (c *coordinator) wanting(round int) (ms []*measurement) {
	common := commonState(c.all)
	for _, m := range c.all {
		have, need := len(common.of(m)), (c.plan.Rounds+1)/2
		switch {
		case round >= 2*c.plan.Rounds:
			have, need = len(m.samples), 1
		case round < c.plan.Rounds:
			have, need = 0, 1
		}
		if have < need && m.failed < maxTries {
			ms = append(ms, m)
		}
	}
	return ms
}

// take adds a sample to m unless the machine's state changed during it. It repeats a sample in
// which an unprotected frame was lost, because such a loss says nothing about the stack. Any other
// error is recorded in m, except that an error of the control channel ends all measurements.
func (c *coordinator) take(ctx context.Context, m *measurement) error {
	for range maxLost {
		err := c.attempt(ctx, m)
		if !errors.Is(err, errLost) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.tell(m)
	}
	m.failed++
	m.err = fmt.Errorf("%d consecutive samples failed: %w", maxLost, errLost)
	return nil
}

// attempt is one attempt of take. It returns errLost or an error of the control channel.
func (c *coordinator) attempt(ctx context.Context, m *measurement) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout(m.Case, c.plan.Sample))
	defer cancel()
	if err := c.ctl.send(message{Op: opOpen, Case: &m.Case}); err != nil {
		return err
	}
	conn, err := c.openConn(ctx, m.Case)
	if err != nil {
		return c.fail(m, err)
	}
	s, err := c.sampleOn(ctx, conn, m)
	if err != nil {
		err = c.fail(m, err)
	} else {
		m.failed = 0
		if s.line >= 0 {
			m.samples = append(m.samples, s)
		}
	}
	return errors.Join(err, c.closeBoth(conn))
}

// fail records the error in m, and returns it if the control channel failed or a frame was lost.
func (c *coordinator) fail(m *measurement, err error) error {
	if errors.Is(err, errLost) && !errors.Is(err, errControl) {
		return errLost
	}
	m.failed++
	m.err = err
	if errors.Is(err, errControl) {
		return err
	}
	return nil
}

func (c *coordinator) closeBoth(conn Conn) error {
	if err := c.ctl.send(message{Op: opClose}); err != nil {
		return err
	}
	conn.Close() // an error of Close does not belong to the measurement
	if _, err := c.result(); errors.Is(err, errControl) {
		return err
	}
	return nil
}

// sampleOn takes a sample on an open connection. The sample's line is negative if the machine's
// state changed.
func (c *coordinator) sampleOn(ctx context.Context, conn Conn, m *measurement) (sample, error) {
	if m.each == 0 && m.Test != LogP {
		if err := c.calibrate(ctx, conn, m); err != nil {
			return sample{}, err
		}
	}
	before := c.line()
	s, err := c.run(ctx, conn, m, c.messages(m))
	if err != nil {
		return s, err
	}
	s.line = lineAround(before, c.line())
	return s, nil
}

// messages returns the number of messages in a sample. A sample of logp is one sweep.
func (c *coordinator) messages(m *measurement) int {
	if m.Test == LogP {
		return sweepRequests()
	}
	if c.plan.Count > 0 {
		return min((c.plan.Count+c.plan.Rounds-1)/c.plan.Rounds, maxMessages)
	}
	return int(min(max(float64(c.plan.Sample)/m.each, minMessages), maxMessages))
}

// calibrate runs messages until it knows how long a message takes. Later samples correct the time
// if something disturbed the machine.
func (c *coordinator) calibrate(ctx context.Context, conn Conn, m *measurement) error {
	n := minMessages
	if m.Stack == ucxName {
		n = ucxMessages
	}
	for ; n <= maxMessages; n *= 4 {
		if _, err := c.run(ctx, conn, m, n); err != nil {
			return err
		}
		if m.each*float64(n) >= float64(c.plan.Sample)/8 {
			break
		}
	}
	return nil
}

// run warms up the connection and sends n messages over it.
func (c *coordinator) run(ctx context.Context, conn Conn, m *measurement, n int) (s sample, err error) {
	warm := 2
	if timed(m.Test) || m.Test == LogP {
		warm = min(n/8+1, 256)
	}
	if m.Stack == ucxName { // UCX's benchmark has its own warm-up, and takes long to start
		warm = 0
	}
	if need := max(n, warm); len(c.rtt) < need {
		c.rtt = make([]int64, need)
	}
	if err := c.ctl.send(message{Op: opRun, Case: &m.Case, Warm: warm, Count: n, Sample: c.plan.Sample}); err != nil {
		return s, err
	}
	err = conn.PingPong(ctx, c.rtt[:warm])
	start, used := time.Now(), processorTime()
	switch {
	case err != nil:
	case timed(m.Test):
		s.count, err = n, conn.PingPong(ctx, c.rtt[:n])
	case m.Test == LogP:
		s, err = runSweep(ctx, conn)
	default:
		s.count, err = conn.Stream(ctx, n)
	}
	took := time.Since(start)
	if u, ok := conn.(*ucxConn); ok && !timed(m.Test) {
		took = u.took()
	}
	used = processorTime() - used
	counters, peerErr := c.result()
	if err = errors.Join(err, peerErr); err != nil {
		return s, err
	}
	s.Counters = conn.Counters()
	s.CPU = used
	s.add(counters)
	s.perSecond = float64(s.count) / took.Seconds()
	if timed(m.Test) {
		s.rtt, err = histogram(c.rtt[:n])
	}
	m.learn(float64(took)/float64(n), s.rtt)
	return s, err
}

// learn lowers the estimated time of a message if the last sample was faster. If the single round
// trips are known, it uses their median, so that a few slow ones on a busy machine do not count. It
// limits the correction, because the next sample would take too long if there were slow round trips
// in it again. For Overhead, the time between the timed calls counts too.
func (m *measurement) learn(each float64, rtt *hdrhistogram.Histogram) {
	if rtt != nil && m.Test != Overhead {
		each = max(float64(rtt.ValueAtQuantile(50)), each/maxGrowth)
	}
	if m.each == 0 || each < m.each {
		m.each = each
	}
}

func histogram(rtt []int64) (*hdrhistogram.Histogram, error) {
	h := hdrhistogram.New(1, maxRTT, 3)
	for _, ns := range rtt {
		if err := h.RecordValue(ns); err != nil {
			return nil, fmt.Errorf("perf: round trip of %v: %w", time.Duration(ns), err)
		}
	}
	return h, nil
}

// stateRatio is the maximum ratio of cache-line times of one state. The states near and far differ
// by a factor of three or four, and noise is a tenth.
const stateRatio = 1.5

// lineAround returns the cache-line time of a sample, given the times before and after it, or -1 if
// the state changed during the sample.
func lineAround(before, after float64) float64 {
	lo, hi := min(before, after), max(before, after)
	if hi > lo*stateRatio {
		return -1
	}
	return (lo + hi) / 2
}

// state is a range of cache-line times. The two halves run on cores that are near to or far from
// each other.
type state struct{ lo, hi float64 }

// of returns the samples of m that were taken in s.
func (s state) of(m *measurement) []sample {
	var in []sample
	for _, x := range m.samples {
		if s.lo <= x.line && x.line <= s.hi {
			in = append(in, x)
		}
	}
	return in
}

// states sorts the cache-line times of all samples and splits them where the ratio of two
// neighbours exceeds stateRatio. It returns the ranges, the one with the most samples first.
func states(all []*measurement) []state {
	var lines []float64
	for _, m := range all {
		for _, s := range m.samples {
			lines = append(lines, s.line)
		}
	}
	slices.Sort(lines)
	type group struct {
		state
		n int
	}
	var groups []group
	for i, x := range lines {
		if i == 0 || x > lines[i-1]*stateRatio {
			groups = append(groups, group{state: state{x, x}})
		}
		g := &groups[len(groups)-1]
		g.hi = x
		g.n++
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.n - a.n })
	found := make([]state, len(groups))
	for i, g := range groups {
		found[i] = g.state
	}
	return found
}

// commonState returns the state that most samples were taken in.
func commonState(all []*measurement) state {
	if found := states(all); len(found) > 0 {
		return found[0]
	}
	return state{0, math.Inf(1)}
}

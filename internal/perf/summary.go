package perf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// errNoSample is why a case has no record although nothing failed.
var errNoSample = errors.New("the machine's state changed during every sample (try again, or increase --rounds)")

// summarize makes the records of all measurements from the samples in the most common state. For a
// case without such samples, it uses the next most common state.
func summarize(all []*measurement) ([]Record, error) {
	found := states(all)
	var records []Record
	var failed failures
	for _, m := range all {
		var samples []sample
		for i := 0; i < len(found) && len(samples) == 0; i++ {
			samples = found[i].of(m)
		}
		switch {
		case len(samples) > 0:
			r, err := record(m.Case, samples)
			if err != nil {
				failed.add(m.Case, err)
				continue
			}
			records = append(records, r)
		case m.err != nil:
			failed.add(m.Case, m.err)
		default:
			failed.add(m.Case, errNoSample)
		}
	}
	return records, failed.err(len(all))
}

// record merges samples of one state.
func record(c Case, samples []sample) (r Record, err error) {
	r.Case = c
	var rates, lines []float64
	var used time.Duration
	merged := hdrhistogram.New(1, maxRTT, 3)
	for _, s := range samples {
		r.Count += s.count
		r.Retransmits += s.Retransmits
		r.Drops += s.Drops
		used += s.CPU
		rates = append(rates, s.perSecond)
		lines = append(lines, s.line)
		if s.rtt != nil {
			merged.Merge(s.rtt)
		}
	}
	r.LineNs = median(lines)
	switch c.Test {
	case Latency:
		r.P50 = oneWay(merged.ValueAtQuantile(50))
		r.P99 = oneWay(merged.ValueAtQuantile(99))
		r.Min = oneWay(merged.Min())
		if c.Stack == ucxName { // UCX's benchmark reports only the median
			r.P99, r.Min = 0, 0
		}
	case Read, Overhead, Barrier:
		r.P50 = 2 * oneWay(merged.ValueAtQuantile(50))
		r.P99 = 2 * oneWay(merged.ValueAtQuantile(99))
		r.Min = 2 * oneWay(merged.Min())
	case Bandwidth, Bidirectional, Write:
		r.Mbits = median(rates) * float64(c.Size) * 8 / 1e6
		r.CPU = used.Seconds() * 1e9 / (float64(r.Count) * float64(c.Size))
	case Rate:
		r.Rate = median(rates)
	case Primitives, Bulk:
		r.Rate = median(rates)
		r.P50, r.Mbits = 1e6/r.Rate, r.Rate*float64(c.Size)*8/1e6
	case LogP:
		r.LogP, err = signature(samples, merged)
	}
	return r, err
}

// oneWay converts a round-trip time in nanoseconds to a one-way time in microseconds.
func oneWay(rtt int64) float64 { return float64(rtt) / 2000 }

// failures has the causes why measurements have no record. Each cause occurs once, with all cases
// that it has ended.
type failures struct {
	causes []error // in the order of their detection; only the first of equal texts
	cases  map[string][]string
}

// add notes why a case has no record.
func (f *failures) add(c Case, cause error) {
	text := cause.Error()
	if f.cases == nil {
		f.cases = map[string][]string{}
	}
	if len(f.cases[text]) == 0 {
		f.causes = append(f.causes, cause)
	}
	f.cases[text] = append(f.cases[text], c.String())
}

// err returns the failures as one error, or nil. measurements is the number of all measurements.
func (f *failures) err(measurements int) error {
	var all []error
	for _, cause := range f.causes {
		cases := f.cases[cause.Error()]
		who := strings.Join(cases, "; ")
		if len(cases) == measurements && measurements > 1 {
			who = fmt.Sprintf("all %d measurements failed", measurements)
		}
		all = append(all, fmt.Errorf("%s: %w", who, cause))
	}
	return errors.Join(all...)
}

// bothHalves combines a failure of this half and one of the other. It reports a cause that affects
// both, such as an unreadable key, only once. It leaves out an error of the other half that only
// repeats this one.
func bothHalves(own, other error) error {
	if peer := (*peerError)(nil); own != nil && errors.As(other, &peer) {
		switch peer.text {
		case own.Error():
			return fmt.Errorf("both halves: %w", own)
		case (&peerError{text: own.Error()}).Error():
			return own
		}
	}
	return errors.Join(own, other)
}

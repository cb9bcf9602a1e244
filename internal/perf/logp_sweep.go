package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// burster is a Conn that the test logp can be run on. The other half calls
// Sink for as many requests as all bursts together have.
type burster interface {
	// Bursts sends each burst as often as it says, each when all of the one before
	// is answered, and after a rest. It notes how many nanoseconds the sending took, as if the pauses
	// had been of exactly the burst's delay, and how many passed until all
	// requests were answered.
	Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error
}

// The sweep: bursts of powers of two, with each of these delays. Without a delay
// the longest is well beyond the credits, so that the flow control shows, too.
// With one a burst ends when it has long been steady, because what disturbs the
// machine now and then disturbs most bursts if they are long.
const (
	longestBurst  = 512
	longestDelays = 1600 * time.Microsecond // of a burst, together
	burstRequests = 128                     // a short burst comes so often that it has this many
	fewestBursts  = 8                       // and a long one at least so often
)

var sweepDelays = []time.Duration{0, 1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, sweepRest}

// sweepRest is the longest delay, and that between bursts.
const sweepRest = 50 * time.Microsecond

// burst is one point of the sweep.
type burst struct {
	size, times int
	delay       time.Duration // after each request
}

// sweep is one sample of the test logp, in the order of a Signature's points.
var sweep = func() (all []burst) {
	for _, delay := range sweepDelays {
		for size := 1; size <= longestBurst && time.Duration(size)*delay <= longestDelays; size *= 2 {
			all = append(all, burst{size, max(burstRequests/size, fewestBursts), delay})
		}
	}
	return all
}()

// sweepRequests returns how many requests a sweep has.
func sweepRequests() (n int) {
	for _, b := range sweep {
		n += b.size * b.times
	}
	return n
}

// sweepBursts returns how many bursts a sweep has.
func sweepBursts() (n int) {
	for _, b := range sweep {
		n += b.times
	}
	return n
}

// runSweep takes a sample: the median time of each point, and the round trips
// of lone requests.
func runSweep(ctx context.Context, conn Conn) (s sample, err error) {
	bursts, ok := conn.(burster)
	if !ok {
		return s, fmt.Errorf("perf: bursts %w on this stack", ErrPlan)
	}
	var rtt []int64
	var times []float64
	err = bursts.Bursts(ctx, sweep, func(b burst, sent, answered int64) {
		s.count += b.size
		if b.size == 1 && b.delay == 0 {
			rtt = append(rtt, answered)
		}
		times = append(times, float64(sent)/1000/float64(b.size))
		if len(times) == b.times {
			s.bursts = append(s.bursts, median(times))
			times = times[:0]
		}
	})
	if err != nil {
		return s, err
	}
	s.rtt, err = histogram(rtt)
	return s, err
}

// signature merges samples: the median of each point.
func signature(samples []sample, rtt *hdrhistogram.Histogram) (*Signature, error) {
	points := make([]BurstPoint, len(sweep))
	for i, b := range sweep {
		var times []float64
		for _, s := range samples {
			times = append(times, s.bursts[i])
		}
		points[i] = BurstPoint{Burst: b.size, Delay: float64(b.delay) / 1000, Time: median(times)}
	}
	return characterize(points, float64(rtt.ValueAtQuantile(50))/1000)
}

// eachBurst makes all bursts, each after a rest.
func eachBurst(all []burst, rest func(), one func(n int, ns int64) (sent, answered int64, err error), note func(b burst, sent, answered int64)) error {
	for _, b := range all {
		for range b.times {
			rest()
			sent, answered, err := one(b.size, int64(b.delay))
			if err != nil {
				return err
			}
			note(b, sent, answered)
		}
	}
	return nil
}

// pause looks at the clock for at least ns and returns how long it did.
func pause(now func() int64, ns int64) int64 {
	start := now()
	for {
		if took := now() - start; took >= ns {
			return took
		}
	}
}

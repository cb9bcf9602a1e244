package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Signature is the result of the test logp: how the sender's time for a request depends on the
// length of a burst and on the pauses in it, and the parameters of the LogP model that follow. All
// times are in microseconds.
type Signature struct {
	SendOverhead    float64 `json:"os_us"`  // the processor's time to send a message
	ReceiveOverhead float64 `json:"or_us"`  // the processor's time to receive and handle a message
	Latency         float64 `json:"l_us"`   // the rest of the one-way time
	Gap             float64 `json:"g_us"`   // time between messages at the highest rate
	RTT             float64 `json:"rtt_us"` // round-trip time of one request and its reply

	Points []BurstPoint `json:"points"`
}

// BurstPoint is one point of a signature.
type BurstPoint struct {
	Burst int     `json:"burst"`    // requests
	Delay float64 `json:"delay_us"` // pause after each
	Time  float64 `json:"us"`       // time for each request, including the pause
}

var (
	errNoBurst = errors.New("too few bursts in the sweep: want one of 1 request and two longer ones for each delay")
	errNoDelay = errors.New("cannot determine the receive overhead: no delay of the sweep is longer than the gap")
)

// characterize finds the parameters of the model by the method of "Assessing Fast Network
// Interfaces" (Culler, Liu, Martin, Yoshikawa). points are in order of delay and burst.
//
//	time      |         ______________  g        no delay: what limits the rate
//	for each  |       /
//	request   | ____/                   o_s      before the first reply has come
//	          +------------------------
//	            burst
//
// With a delay longer than the gap, only the processor's own work counts: each request costs o_s +
// delay, and o_r for the reply that has arrived meanwhile. If there are delays longer than the
// round trip, too, characterize uses those: each request is then alone, which is the case that o_s
// describes. Half a round trip is o_s + L + o_r.
//
// L is small, and may be negative, if the sender's processor carries the message to the receiver,
// as over veth. Then o_s includes the transfer, and the rest of the system call, which returns
// after the receiver has the message. The model adds up the three parameters, so it cannot express
// this overlap. And g may be less than o_s if messages in a burst share costs that a single message
// pays alone: each of the first two of a burst leaves at once by its own system call, and the later
// ones share frames. So o_s is about one system call, and g a part of one.
func characterize(points []BurstPoint, rtt float64) (*Signature, error) {
	s := &Signature{RTT: rtt, Points: points}
	curves := curves(points)
	if len(curves) == 0 || curves[0][0].Burst != 1 || curves[0][0].Delay != 0 {
		return nil, errNoBurst
	}
	s.SendOverhead = curves[0][0].Time
	var received, alone []float64
	for i, curve := range curves {
		steady, err := steady(curve)
		if err != nil {
			return nil, err
		}
		delay := curve[0].Delay
		if i == 0 {
			s.Gap = steady
		} else if delay > s.Gap {
			received = append(received, steady-delay-s.SendOverhead)
			if delay > rtt {
				alone = append(alone, steady-delay-s.SendOverhead)
			}
		}
	}
	if len(alone) > 0 {
		received = alone
	}
	if len(received) == 0 {
		return nil, fmt.Errorf("%w: gap %.1f us, longest delay %v (try again on an idle machine)", errNoDelay, s.Gap, sweepRest)
	}
	s.ReceiveOverhead = median(received)
	s.Latency = rtt/2 - s.SendOverhead - s.ReceiveOverhead
	return s, nil
}

// curves divides the points of a signature by delay.
func curves(points []BurstPoint) (all [][]BurstPoint) {
	for i, p := range points {
		if i == 0 || p.Delay != points[i-1].Delay {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last = append(*last, p)
	}
	return all
}

// steady returns the time for each further request of a long burst. It is the difference between
// the times of the two longest bursts, so neither the requests before the first reply nor the
// replies after the last request count.
func steady(curve []BurstPoint) (float64, error) {
	if len(curve) < 2 {
		return 0, errNoBurst
	}
	a, b := curve[len(curve)-2], curve[len(curve)-1]
	if a.Burst >= b.Burst {
		return 0, errNoBurst
	}
	return (b.Time*float64(b.Burst) - a.Time*float64(a.Burst)) / float64(b.Burst-a.Burst), nil
}

// burster is a Conn that supports the test logp. The other half calls Sink for as many requests as
// all bursts have together.
type burster interface {
	// Bursts sends the bursts one after another. Each starts after a rest, when all requests of the
	// previous one have been answered. It passes to note the nanoseconds that sending took, as if
	// the pauses had had exactly the burst's delay, and the nanoseconds until all requests were
	// answered.
	Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error
}

// The sweep: bursts of powers of two, with each of these delays. Without a delay the longest burst
// is well beyond the credits, so that the effect of flow control shows, too. With a delay, a burst
// ends long after it has become steady. It is not longer, because occasional disturbances of the
// machine affect most long bursts.
const (
	longestBurst  = 512
	longestDelays = 1600 * time.Microsecond // maximum total of the delays in a burst
	burstRequests = 128                     // number of requests of all bursts of one short length
	fewestBursts  = 8                       // minimum number of bursts of one length
)

var sweepDelays = []time.Duration{0, 1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, sweepRest}

// sweepRest is the longest delay, and the pause between bursts.
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

// sweepRequests returns the number of requests in a sweep.
func sweepRequests() (n int) {
	for _, b := range sweep {
		n += b.size * b.times
	}
	return n
}

// sweepBursts returns the number of bursts in a sweep.
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

// eachBurst sends all bursts, each after a rest.
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

// pause reads the clock repeatedly for at least ns nanoseconds, and returns the time that has
// passed.
func pause(now func() int64, ns int64) int64 {
	start := now()
	for {
		if took := now() - start; took >= ns {
			return took
		}
	}
}

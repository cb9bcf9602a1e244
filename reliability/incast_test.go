package reliability

import (
	"testing"
)

// The bottleneck: 10 Gb/s, MTU 1500.
const (
	wireTime    = 1230      // ns on the wire for a full frame with preamble and gap
	bareTime    = 70        // ns for a bare acknowledgement
	frameData   = 1500 - 48 // bytes of a message in one frame
	mebiFrames  = (1<<20 + frameData - 1) / frameData
	incastQueue = 64 // frames that wait for the wire
)

// incast is the outcome of many peers sending 1 MiB each to one.
type incast struct {
	goodput float64 // share of what the wire carries in full frames
	slowest float64 // slowest sender's goodput over the mean
	total   SenderCounters
}

// runIncast lets n peers send 1 MiB each through one wire with a drop-tail
// queue; each of the two hops to it takes delay.
func runIncast(seed uint64, n int, delay int64, cfg *Config) (incast, error) {
	var wireFree, backFree int64
	w := newWorld(seed, func(w *world, from *peer, p *packet) {
		if !p.data {
			backFree = max(backFree, w.now) + bareTime
			w.at(backFree+2*delay, p, nil)
			return
		}
		from.freeAt = max(from.freeAt, w.now) + wireTime
		p.inside = true
		w.at(from.freeAt+delay+w.rng.Int64N(delay/8+1), p, nil)
	})
	w.relay = func(w *world, p *packet) {
		if wireFree-w.now > incastQueue*wireTime {
			w.free = append(w.free, p)
			return
		}
		wireFree = max(wireFree, w.now) + wireTime
		w.at(wireFree+delay, p, nil)
	}
	var senders, sinks []*peer
	for range n {
		a, b := w.connect(cfg, mebiFrames, 0)
		senders, sinks = append(senders, a), append(sinks, b)
		a.wakeAt = w.now + w.rng.Int64N(20_000)
		w.at(a.wakeAt, nil, a)
	}
	done := func() bool {
		for _, p := range sinks {
			if p.missing > 0 {
				return false
			}
		}
		return true
	}
	if err := w.run(5_000_000_000, done); err != nil {
		return incast{}, err
	}
	return summarize(senders, sinks), nil
}

func summarize(senders, sinks []*peer) (r incast) {
	var mean, slowest float64
	var last int64
	for i, p := range sinks {
		rate := 1 / float64(p.doneAt)
		mean += rate / float64(len(sinks))
		if last < p.doneAt {
			last, slowest = p.doneAt, rate
		}
		c := senders[i].Sender.Stats().SenderCounters
		r.total.Sent += c.Sent
		r.total.Fast += c.Fast
		r.total.Probes += c.Probes
		r.total.Timeouts += c.Timeouts
		r.total.Needless += c.Needless
		r.total.Cuts += c.Cuts
	}
	r.goodput = float64(len(sinks)) * mebiFrames * wireTime / float64(last)
	r.slowest = slowest / mean
	return r
}

// TestIncast wants of 64 senders that they use the wire and share it fairly.
func TestIncast(t *testing.T) {
	const senders, minGoodput, minShare = 64, 0.8, 0.5
	for _, delay := range []int64{500, 5000, 25_000} {
		eachSeed(t, 50, func(t *testing.T, seed uint64) {
			r, err := runIncast(seed, senders, delay, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.goodput < minGoodput || r.slowest < minShare {
				t.Errorf("delay %d ns: goodput %.3f of the wire, want %v; slowest %.2f of the mean, want %v; %+v",
					delay, r.goodput, minGoodput, r.slowest, minShare, r.total)
			}
		})
	}
}

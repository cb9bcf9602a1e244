package reliability

import (
	"slices"
	"testing"
)

// shared is a wire of 10 Gb/s with a drop-tail queue before it, which senders
// with endless messages share.
type shared struct {
	senders, late int     // from the start, and from the time from on
	from, till    int64   // when rates are measured, ns
	queue         int     // frames
	loss          float64 // of frames, whatever they carry, before the queue
	jitter        int64   // greatest further delay of a frame on its way to the queue, ns
}

// rates are goodputs as shares of the wire.
type rates []float64

func (r rates) sum() (sum float64) {
	for _, rate := range r {
		sum += rate
	}
	return sum
}

// relative returns rate as a share of the mean.
func (r rates) relative(rate float64) float64 { return rate * float64(len(r)) / r.sum() }

func (r rates) slowest() float64 { return r.relative(slices.Min(r)) }

// run returns the rates between from and till. Each hop takes 5 us.
func (s shared) run(seed uint64) (rates, error) {
	const delay = 5000
	var wireFree, backFree int64
	w := newWorld(seed, func(w *world, from *peer, p *packet) {
		switch {
		case w.rng.Float64() < s.loss:
			w.free = append(w.free, p)
		case p.data:
			from.freeAt = max(from.freeAt, w.now) + wireTime
			p.inside = true
			w.at(from.freeAt+delay+w.rng.Int64N(s.jitter+1), p, nil)
		default:
			backFree = max(backFree, w.now) + bareTime
			w.at(backFree+2*delay, p, nil)
		}
	})
	w.relay = func(w *world, p *packet) {
		if wireFree-w.now > int64(s.queue)*wireTime {
			w.free = append(w.free, p)
			return
		}
		wireFree = max(wireFree, w.now) + wireTime
		w.at(wireFree+delay, p, nil)
	}
	sinks := make([]*peer, s.senders+s.late)
	for i := range sinks {
		a, b := w.connect(nil, int(s.till/wireTime)+1, 0)
		sinks[i] = b
		a.wakeAt = w.now + w.rng.Int64N(20_000)
		if i >= s.senders {
			a.wakeAt += s.from
		}
		w.at(a.wakeAt, nil, a)
	}
	if err := w.run(never, func() bool { return w.now >= s.from }); err != nil {
		return nil, err
	}
	r := make(rates, len(sinks))
	for i, b := range sinks {
		r[i] = float64(b.missing)
	}
	err := w.run(never, func() bool { return w.now >= s.till })
	for i, b := range sinks {
		r[i] = (r[i] - float64(b.missing)) * wireTime / float64(s.till-s.from)
	}
	return r, err
}

// TestSharing wants of one stream that frames lost without need cost it little,
// also when hosts or hops delay each frame by another time; and of streams that
// share a wire that they get about the same, whether frames are lost without
// need, the queue is short, or some come later, when the queue stands and no
// round trip is as short as it can be. Means over seeds count, from 0 on: what
// one stream among others gets varies.
func TestSharing(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name    string
		shared  shared
		seeds   uint64
		goodput float64 // of all, at least
		slowest float64 // as a share of the mean, at least
		late    float64 // of the late, as a share of the mean, at most
	}{
		{"OneLoss1", shared{senders: 1, from: 5 * ms, till: 35 * ms, queue: 64, loss: .01, jitter: 1000}, 6, .95, 0, 0},
		{"OneLoss2", shared{senders: 1, from: 5 * ms, till: 35 * ms, queue: 64, loss: .02, jitter: 1000}, 6, .92, 0, 0},
		{"OneLoss5", shared{senders: 1, from: 5 * ms, till: 35 * ms, queue: 64, loss: .05, jitter: 1000}, 6, .87, 0, 0},
		{"OneLoss5Jitter10", shared{senders: 1, from: 5 * ms, till: 35 * ms, queue: 64, loss: .05, jitter: 10_000}, 6, .3, 0, 0},
		{"OneLoss5Jitter30", shared{senders: 1, from: 5 * ms, till: 35 * ms, queue: 64, loss: .05, jitter: 30_000}, 6, .65, 0, 0},
		{"FourLoss5", shared{senders: 4, from: 10 * ms, till: 40 * ms, queue: 64, loss: .05, jitter: 600}, 6, .9, .4, 0},
		{"Queue4", shared{senders: 16, from: 10 * ms, till: 40 * ms, queue: 4, jitter: 600}, 4, .9, .2, 0},
		{"Queue16", shared{senders: 64, from: 10 * ms, till: 40 * ms, queue: 16, jitter: 600}, 4, .9, .25, 0},
		{"Newcomers", shared{senders: 64, late: 4, from: 30 * ms, till: 70 * ms, queue: 64, jitter: 600}, 4, .9, .12, 2.5},
		{"NewcomerDeepQueue", shared{senders: 32, late: 1, from: 30 * ms, till: 70 * ms, queue: 512, jitter: 600}, 4, .95, .3, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var goodput, slowest, late float64
			for seed := range c.seeds {
				r, err := c.shared.run(seed)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				goodput += r.sum() / float64(c.seeds)
				slowest += r.slowest() / float64(c.seeds)
				for _, rate := range r[c.shared.senders:] {
					late += r.relative(rate) / float64(c.seeds) / float64(c.shared.late)
				}
			}
			t.Logf("%.3f of the wire; slowest %.2f of the mean, late ones %.2f of it", goodput, slowest, late)
			if goodput < c.goodput || slowest < c.slowest || late > c.late {
				t.Errorf("%.3f of the wire, want %v; slowest %.2f of the mean, want %v; late ones %.2f of it, want at most %v",
					goodput, c.goodput, slowest, c.slowest, late, c.late)
			}
		})
	}
}

package reliability

import (
	"flag"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

var (
	seedCount = flag.Int("reliability.seeds", 0, "how many seeds the simulations try; 0 means 200, or 40 in the short form")
	onlySeed  = flag.Int64("reliability.seed", -1, "try only this seed, to replay a failure")
)

// eachSeed runs test for one in share of the seeds that the flags ask for, and names the seed
// of the first that fails.
func eachSeed(t *testing.T, share int, test func(t *testing.T, seed uint64)) {
	t.Helper()
	first, n := uint64(0), *seedCount
	if n == 0 {
		if n = 200; !need.Full() {
			n = 40
		}
	}
	n = max(n/share, 1)
	if *onlySeed >= 0 {
		first, n = uint64(*onlySeed), 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		if test(t, seed); t.Failed() {
			t.Fatalf("failed with seed %d; replay: go test ./reliability -run '^%s$' -reliability.seed=%d", seed, t.Name(), seed)
		}
	}
}

// faults is what a bad segment does to each frame.
type faults struct {
	loss, copied, late float64 // rates
	by                 int64   // ns that a late frame takes longer, at most
}

func (f faults) transmit(w *world, from *peer, p *packet) {
	from.freeAt = max(from.freeAt, w.now) + wireTime
	if w.rng.Float64() < f.copied {
		c := w.packet(p.to)
		*c = *p
		w.at(from.freeAt+10_000+w.rng.Int64N(f.by+1), c, nil)
	}
	if w.rng.Float64() < f.loss {
		w.free = append(w.free, p)
		return
	}
	at := from.freeAt + 10_000
	if w.rng.Float64() < f.late {
		at += w.rng.Int64N(f.by + 1)
	}
	w.at(at, p, nil)
}

// exchange sends frames both ways over a bad segment and returns when all have
// been taken once and acknowledged.
func exchange(seed uint64, f faults, cfg *Config, frames int, limit int64) (a, b *peer, err error) {
	w := newWorld(seed, f.transmit)
	a, b = w.connect(cfg, frames, frames/3)
	w.at(w.now, nil, a)
	w.at(w.now, nil, b)
	err = w.run(limit, func() bool {
		return a.missing+b.missing+a.backlog+b.backlog+a.InFlight()+b.InFlight() == 0
	})
	if err == nil && a.missing+b.missing+a.InFlight()+b.InFlight() > 0 {
		err = fmt.Errorf("everything came to rest with %d and %d frames missing", a.missing, b.missing)
	}
	return a, b, err
}

// TestLossyExactlyOnce sends over segments that are bad in every way at once;
// peer.arrive fails when a frame is taken twice.
func TestLossyExactlyOnce(t *testing.T) {
	const frames, limit = 600, 60_000_000_000
	kinds := []faults{
		{loss: .3},
		{loss: .02, copied: .02, by: 50_000},
		{late: .2, by: 64 * wireTime},
		{loss: .3, copied: .3, late: .3, by: 64 * wireTime},
		{loss: .1, copied: .5, late: .5, by: 5_000_000},
	}
	eachSeed(t, 1, func(t *testing.T, seed uint64) {
		f := kinds[seed%uint64(len(kinds))]
		cfg := &Config{Window: []int{1, 3, 64, 256, 1024}[seed/5%5]}
		if _, _, err := exchange(seed, f, cfg, frames, limit); err != nil {
			t.Errorf("%+v, window %d: %v", f, cfg.Window, err)
		}
	})
}

// TestReorderBySixtyFour wants no collapse and few needless frames when frames
// overtake each other but none is lost.
func TestReorderBySixtyFour(t *testing.T) {
	const frames = 5000
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		a, b, err := exchange(seed, faults{late: .05, by: 64 * wireTime}, nil, frames, 10_000_000_000)
		if err != nil {
			t.Fatal(err)
		}
		st := a.Sender.Stats()
		if again := st.Fast + st.Probes + st.Timeouts; again > frames/20 || st.Timeouts > 0 {
			t.Errorf("sent %d of %d again, %d of them on a time-out; %+v", again, frames, st.Timeouts, st)
		}
		if b.doneAt > 3*frames*wireTime {
			t.Errorf("took %d ns, three times what the wire takes", b.doneAt)
		}
	})
}

// TestCleanPathStaysOpen wants the window at its maximum soon, and left there
// by a peer that now and then does nothing for milliseconds.
func TestCleanPathStaysOpen(t *testing.T) {
	const frames, stall = 20_000, 3_000_000
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		asleepTill := int64(0)
		w := newWorld(seed, func(w *world, from *peer, p *packet) {
			from.freeAt = max(from.freeAt, w.now) + wireTime
			if p.data && w.rng.IntN(1000) == 0 {
				asleepTill = max(asleepTill, w.now+w.rng.Int64N(stall))
			}
			at := from.freeAt + 10_000
			if p.data {
				at = max(at, asleepTill) // what the sleeper finds comes in order
				asleepTill = max(asleepTill, at-1)
			}
			w.at(at, p, nil)
		})
		a, b := w.connect(nil, frames, 0)
		w.at(w.now, nil, a)
		if err := w.run(10_000_000_000, func() bool { return b.missing == 0 }); err != nil {
			t.Fatal(err)
		}
		if st := a.Sender.Stats(); st.Window != 256 || st.Fast > 0 || st.Timeouts > 0 {
			t.Errorf("window %v after %d frames without loss; %+v", st.Window, frames, st)
		}
	})
}

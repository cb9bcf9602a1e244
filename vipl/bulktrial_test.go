package vipl

import (
	"math/rand/v2"
	"testing"
)

// trialStream is a stream of long messages, and what a trial makes of it.
type trialStream struct {
	bulkTrial
	rng   *rand.Rand
	ways  [2]int64                   // ns for a MiB by the ring and by bulk
	noise float64                    // how much that varies from share to share, either way
	pause func(b *trialStream) int64 // ns until a poll beyond that
	poll  int                        // bytes in a poll; 0: up to 256 KiB
	now   int64
	came  [2]int // bytes by the ring and by bulk
	pace  [2]float64
}

func (b *trialStream) run(bytes int) {
	b.rules = &bulkRules
	b.now += 1_000_000_000_000
	b.draw()
	for after := 0; bytes > 0 && after < 100; {
		size := b.poll
		if size == 0 {
			size = 128<<10 + b.rng.IntN(128<<10)
		}
		i := 0
		if b.apart {
			i = 1
		}
		b.now += int64(float64(b.ways[i]) * b.pace[i] * float64(size) / (1 << 20))
		if b.pause != nil {
			b.now += b.pause(b)
		}
		b.came[i] += size
		was := b.bulkTrial
		b.note(b.now, size)
		if was.apart != b.apart {
			b.draw()
		}
		if was.over {
			if after++; b.bulkTrial != was {
				panic("something changes after the trial")
			}
		}
		bytes -= size
	}
}

func (b *trialStream) draw() {
	for i := range b.pace {
		b.pace[i] = 1 + b.noise*(2*b.rng.Float64()-1)
	}
}

// every returns pauses of ns, one for so many bytes, counted over all.
func every(bytes int, ns int64) func(b *trialStream) int64 {
	return func(b *trialStream) int64 {
		if all := b.came[0] + b.came[1]; all/bytes != (all+256<<10)/bytes {
			return ns
		}
		return 0
	}
}

const ms = 1_000_000

func TestBulkTrial(t *testing.T) {
	for _, c := range []struct {
		name        string
		stream      trialStream
		apart, over bool
		least, most int // pairs
	}{
		{"a third less", trialStream{ways: [2]int64{300_000, 200_000}}, true, true, 3, 3},
		{"a third more", trialStream{ways: [2]int64{200_000, 300_000}}, false, true, 1, 1},
		{"the same", trialStream{ways: [2]int64{200_000, 200_000}}, false, true, 1, 1},
		{"not more than the socket costs", trialStream{ways: [2]int64{200_000, 187_000}}, false, true, 1, 1},
		{"a little more than that", trialStream{ways: [2]int64{200_000, 170_000}}, true, true, 3, 3},
		{"slow, in small polls", trialStream{ways: [2]int64{100 * ms, 50 * ms}, poll: 9000}, true, true, 3, 3},
		{"noise and a third less", trialStream{ways: [2]int64{300_000, 200_000}, noise: 0.1}, true, true, 3, 7},
		{"a pause in each share", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(3<<20, 20*ms)}, false, false, 0, 0},
		{"a shorter one", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(15<<20, 5*ms)}, false, false, 0, 0},
		{"short ones in plenty", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(3<<20, ms/4)}, true, true, 3, 8},
		{"a pause now and then", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(400<<20, 20*ms)}, true, true, 3, 8},
		{"pauses everywhere, which are all alike", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(300<<10, ms/100)}, true, true, 3, 3},
		{"a pause in each share by bulk", trialStream{ways: [2]int64{300_000, 200_000}, pause: func(b *trialStream) int64 {
			if b.apart && !b.over && b.measured > 1<<20 {
				return 20 * ms
			}
			return 0
		}}, false, true, trialMost + 1, trialMost + 1},
		{"a pause in each share by the ring but the first", trialStream{ways: [2]int64{300_000, 200_000}, pause: func(b *trialStream) int64 {
			if b.begun() && !b.apart && !b.over && b.measured > 1<<20 {
				return 20 * ms
			}
			return 0
		}}, false, true, trialMost + 1, trialMost + 1},
		{"a long pause in the trial", trialStream{ways: [2]int64{300_000, 200_000}, pause: every(30<<20, 1001*ms)}, false, true, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.stream
			s.rng = rand.New(rand.NewPCG(1, 2))
			s.run(8 << 30)
			if s.apart != c.apart || s.over != c.over || s.pairs < c.least || s.pairs > c.most {
				t.Errorf("apart %v, over %v, %d pairs, score %d; want %v, %v, %d to %d", s.apart, s.over, s.pairs, s.score, c.apart, c.over, c.least, c.most)
			}
			if c.most == 0 && s.came[1] > 0 {
				t.Errorf("%d bytes have come by bulk", s.came[1])
			}
		})
	}
}

// TestBulkTrialNoise: in streams whose speed varies as much as the gain asked for, a
// way that saves nothing seldom wins and one that saves a lot mostly does; and a trial
// has always an end.
func TestBulkTrialNoise(t *testing.T) {
	const streams = 300
	for _, c := range []struct {
		bulk        int64
		least, most int // verdicts for bulk
	}{{250_000, 0, 0}, {200_000, 0, streams / 10}, {120_000, streams * 9 / 10, streams}} {
		won := 0
		for seed := range uint64(streams) {
			s := trialStream{ways: [2]int64{200_000, c.bulk}, noise: 0.1, rng: rand.New(rand.NewPCG(seed, 3))}
			s.run(8 << 30)
			if !s.over || s.pairs > trialMost+1 {
				t.Fatalf("seed %d: over %v after %d pairs", seed, s.over, s.pairs)
			}
			if s.apart {
				won++
			}
		}
		if won < c.least || won > c.most {
			t.Errorf("bulk takes %d ns and the ring 200000: on in %d of %d streams, want %d to %d", c.bulk, won, streams, c.least, c.most)
		}
	}
}

// TestBulkTrialLeft: a trial in whose midst the stream ends does not keep the second
// socket; before the first share by bulk there is none, and the trial stays open.
func TestBulkTrialLeft(t *testing.T) {
	for _, c := range []struct {
		bytes int
		over  bool
	}{{4 << 20, false}, {25 << 20, true}, {40 << 20, true}} {
		s := trialStream{ways: [2]int64{300_000, 200_000}, rng: rand.New(rand.NewPCG(1, 2))}
		s.run(c.bytes)
		s.note(s.now+s.rules.end, 0)
		if s.over {
			t.Errorf("after %d bytes: over too early", c.bytes)
		}
		s.note(s.now+s.rules.end+1, 0)
		if s.over != c.over || s.apart {
			t.Errorf("after %d bytes and a second: over %v, apart %v", c.bytes, s.over, s.apart)
		}
	}
}

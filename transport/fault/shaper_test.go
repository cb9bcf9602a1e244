package fault

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// run sends n numbered frames through a shaper, one every step, and returns
// their numbers as they come out.
func run(opts Options, n int, step time.Duration) (out []int, s *shaper) {
	opts = opts.withDefaults()
	s = newShaper(&opts, Tx)
	now := int64(1)
	drain := func() {
		s.release(now)
		for _, h := range s.ready {
			out = append(out, int(h.data[20])<<8|int(h.data[21]))
		}
		s.removeReady(len(s.ready))
	}
	for i := range n {
		f := make([]byte, 64)
		f[20], f[21] = byte(i>>8), byte(i)
		s.admit(&transport.Frame{Head: f[:30], Body: [][]byte{f[30:]}}, now)
		drain()
		now += int64(step)
	}
	now += int64(time.Second)
	drain()
	return out, s
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, want string
		faults        uint64
	}{
		{"", "[0 1 2 3 4 5 6 7]", 0},
		{".", "[0 1 2 3 4 5 6 7]", 0},
		{"...x", "[0 1 2 4 5 6]", 2},
		{"x", "[]", 8},
		{"2...", "[0 0 1 2 3 4 4 5 6 7]", 2},
		{"r.......", "[1 0 2 3 4 5 6 7]", 1},
		{".r..", "[0 2 1 3 4 6 5 7]", 2},
		{".......r", "[0 1 2 3 4 5 6 7]", 1}, // nothing overtakes the last: it waits, then goes
	} {
		script, err := Pattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		got, s := run(Options{Script: script, ReorderBy: 1}, 8, 0)
		if fmt.Sprint(got) != test.want || s.faults != test.faults {
			t.Errorf("%q: %v with %d faults, want %s with %d", test.pattern, got, s.faults, test.want, test.faults)
		}
		if s.inside() != 0 {
			t.Errorf("%q: %d frames are still inside", test.pattern, s.inside())
		}
	}
	if _, err := Pattern("..y"); err == nil || !strings.Contains(err.Error(), `'y' at 2`) {
		t.Errorf("Pattern with a wrong letter: %v", err)
	}
}

// TestSeed runs the same frames twice with one seed and once with another.
func TestSeed(t *testing.T) {
	opts := Options{Seed: 7, Drop: 0.2, Dup: 0.1, Reorder: 0.2, Corrupt: 0.1, Jitter: time.Microsecond}
	a, _ := run(opts, 500, 100)
	b, _ := run(opts, 500, 100)
	opts.Seed = 8
	c, _ := run(opts, 500, 100)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("the same seed gave different faults")
	}
	if fmt.Sprint(a) == fmt.Sprint(c) {
		t.Error("different seeds gave the same faults")
	}
}

// TestRates compares how often each fault happens with what was asked.
func TestRates(t *testing.T) {
	const n = 20000
	near := func(what string, got, want int) {
		if got < want*8/10 || got > want*12/10 {
			t.Errorf("%s: %d of %d, want about %d", what, got, n, want)
		}
	}
	out, _ := run(Options{Seed: 1, Drop: 0.3}, n, 0)
	near("dropped", n-len(out), n*3/10)
	out, _ = run(Options{Seed: 1, Dup: 0.2}, n, 0)
	near("doubled", len(out)-n, n*2/10)
	_, s := run(Options{Seed: 1, Corrupt: 0.1}, n, 0)
	near("corrupted", int(s.faults), n/10)
	out, _ = run(Options{Seed: 1, Reorder: 0.1, ReorderBy: 64}, n, 0)
	late := 0
	for i := range out[1:] {
		if out[i+1] < out[i] {
			late++
		}
	}
	near("reordered", late, n/10)
	if len(out) != n {
		t.Errorf("%d of %d frames came out", len(out), n)
	}
}

// TestReorderBy reorders one frame under many seeds: it is overtaken by 1 to
// ReorderBy others, and each number occurs.
func TestReorderBy(t *testing.T) {
	const by = 5
	script, err := Pattern("r" + strings.Repeat(".", 19))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for seed := range uint64(100) {
		out, _ := run(Options{Seed: seed, Script: script, ReorderBy: by}, 20, 0)
		overtaken := slices.Index(out, 0)
		if overtaken < 1 || overtaken > by {
			t.Errorf("seed %d: overtaken by %d, want 1..%d", seed, overtaken, by)
		}
		seen[overtaken] = true
	}
	if len(seen) != by {
		t.Errorf("only %d different numbers in 100 seeds", len(seen))
	}
}

// TestDelay looks at frames before and after they are due.
func TestDelay(t *testing.T) {
	opts := Options{Delay: time.Millisecond}.withDefaults()
	s := newShaper(&opts, Rx)
	s.admit(&transport.Frame{Head: make([]byte, 62)}, 1000)
	due := int64(1000 + time.Millisecond)
	if s.next(0) != due {
		t.Errorf("next = %d, want %d", s.next(0), due)
	}
	if s.release(due - 1); len(s.ready) != 0 {
		t.Error("a frame came out early")
	}
	if s.release(due); len(s.ready) != 1 || s.next(0) != 0 || s.next(1) != transport.Forever {
		t.Error("a frame did not come out when it was due")
	}
}

// TestCorrupt changes 1 to 4 bits behind the Ethernet header of a copy.
func TestCorrupt(t *testing.T) {
	opts := Options{Corrupt: 1}.withDefaults()
	s := newShaper(&opts, Tx)
	long := bytes.Repeat([]byte{0xa5}, 70)
	for i := range 1000 {
		whole := long[:15+i%2*55] // one byte behind the header: flips meet
		s.admit(&transport.Frame{Head: whole}, 1)
		s.release(1)
		got, flips := s.ready[0].data, 0
		for i := range got {
			flips += bits.OnesCount8(got[i] ^ whole[i])
		}
		if flips < 1 || flips > 4 || !bytes.Equal(got[:14], whole[:14]) {
			t.Fatalf("%d bits changed: %x", flips, got)
		}
		s.removeReady(1)
	}
	if long[14] != 0xa5 || long[20] != 0xa5 {
		t.Error("the sender's memory changed")
	}
	s.admit(&transport.Frame{Head: long[:14]}, 1) // nothing there to corrupt
}

// TestFull fills the shaper to its limit.
func TestFull(t *testing.T) {
	opts := Options{Delay: time.Hour, Dup: 1}.withDefaults()
	s := newShaper(&opts, Tx)
	for i := 0; !s.full(); i++ {
		if i > maxQueued {
			t.Fatal("never full")
		}
		s.admit(&transport.Frame{Head: make([]byte, 62)}, 1)
	}
	if s.inside() > maxQueued {
		t.Errorf("%d frames inside, limit %d", s.inside(), maxQueued)
	}
}

package progress

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport"
)

// windowOf records a window of observation in which every yield takes ns, and returns the time at its
// end and whether it leaves a doubt.
func windowOf(s *spinner, now, ns int64) (end int64, doubt bool) {
	for end = now + ns; ; end += ns + 1000 {
		if _, doubt = s.yielded(end, ns); s.since == end {
			return end, doubt
		}
	}
}

// TestPolite: on a crowded host whose other threads soon give the processor back, a wait goes on
// spinning and yields after each look. If they keep it, the wait pauses spinning.
func TestPolite(t *testing.T) {
	var s spinner
	s.init(0, false, false)
	for i, c := range []struct {
		took            int64
		crowded         bool
		polite, pausing bool
	}{
		{yieldLong, true, true, false},
		{10 * yieldLong, true, true, false},
		{yieldLong, false, false, false}, // another processor is idle
		{20_000, true, true, false},
		{yieldKept, true, false, true},
		{20_000, true, true, false},
		{yieldLong - 1, true, false, false}, // the others are gone, so there is no doubt
	} {
		now, doubt := windowOf(&s, s.since, c.took)
		if doubt != (c.took >= yieldLong) {
			t.Fatalf("window %d, of yields of %d ns: doubt is %v", i, c.took, doubt)
		}
		if doubt {
			s.judge(now, c.crowded, true)
		}
		if pausing := s.budget(now) == 0; s.polite != c.polite || pausing != c.pausing {
			t.Errorf("window %d, of yields of %d ns: polite is %v, pausing %v", i, c.took, s.polite, pausing)
		}
		s.until = 0
	}
	for _, c := range []struct{ gives, near bool }{{true, true}, {false, false}} {
		s.init(0, false, c.gives)
		now, _ := windowOf(&s, s.since, 20_000)
		if s.judge(now, true, c.near); s.polite || s.budget(now) != 0 {
			t.Errorf("a spinner with GiveWay %v, messages through memory %v, is polite instead of pausing", c.gives, c.near)
		}
	}
}

// slow is a link on which nothing comes, and whose clock goes on by a step with each look at it.
type slow struct {
	transport.Link
	now, step int64
	looks     int
}

func (l *slow) Info() transport.Info { return transport.Info{} }

func (l *slow) Ready() bool {
	l.looks++
	return false
}

func (l *slow) Now() int64 {
	l.now += l.step
	return l.now
}

// TestLentTime: time in which other threads run does not count for how long a polite wait polls.
func TestLentTime(t *testing.T) {
	for _, c := range []struct {
		polite        bool
		step, stirred int64
		looks         int
	}{{true, yieldLong - 1, 0, politeLook}, {true, yieldLong, yieldLong, politeLook}, {false, yieldLong, 0, yieldEvery * spinRound}} {
		l := &slow{step: c.step}
		m := newCounter(l, &Config{NoService: true})
		m.e.spin.polite = c.polite
		m.e.Lock()
		w := m.e.Begin(t.Context())
		for l.looks < c.looks {
			m.e.spinOnce(&w)
		}
		m.e.Unlock()
		if w.stirred != c.stirred || l.looks != c.looks {
			t.Errorf("polite %v: a yield of %d ns after %d looks moves the begin of the wait by %d ns, want %d after %d", c.polite, c.step, l.looks, w.stirred, c.stirred, c.looks)
		}
	}
}

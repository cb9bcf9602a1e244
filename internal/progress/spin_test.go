package progress

import "testing"

// TestLongWaitPolls: whether a wait should have polled in place of sleeping is judged by how long
// nothing came, and not by how long it lasts: who waits for one thing while others read this host's
// memory polls between their messages.
func TestLongWaitPolls(t *testing.T) {
	e := watcher()
	s := &e.spin
	s.limit, s.current = 50_000, 0
	e.Lock()
	defer e.Unlock()
	w := e.Begin(t.Context())
	w.started, w.stirred, w.leading = e.now, e.now, true
	e.now += 3_000_000
	w.stir(e)
	if s.current != 0 {
		t.Fatalf("a wait that has not slept makes the budget %d", s.current)
	}
	for range 2 { // long after it began, 20 us apart
		w.dozed = true
		e.now += 20_000
		w.stir(e)
	}
	if s.current != s.limit {
		t.Errorf("the budget is %d when messages have come 20 us apart, want %d", s.current, s.limit)
	}
	w.dozed = true
	e.now += 1_000_000
	e.End(&w)
	if s.current != s.limit/2 {
		t.Errorf("the budget is %d when nothing has come for a millisecond, want %d", s.current, s.limit/2)
	}
}

// TestSqueezed: who has found another thread on its processor twice in succession is
// to migrate, and not again at once.
func TestSqueezed(t *testing.T) {
	const long, short = yieldLong, yieldLong - 1
	var s spinner
	s.init(0, false, false)
	now := int64(stayFor)
	for i, c := range []struct {
		after, took int64
		share       bool
	}{
		{0, long, false},
		{1000, short, false},
		{1000, long, false}, // not in succession
		{1000, long, true},
		{1000, long, false},
		{1000, long, false}, // it has only just migrated
		{stayFor, long, true},
		{stayFor, short, false},
		{1000, long, false},
		{1000, long, true},
	} {
		now += c.after
		if share, _ := s.yielded(now, c.took); share != c.share {
			t.Fatalf("yield %d, of %d ns at %d: migrate is %v, want %v", i, c.took, now, share, c.share)
		}
	}
}

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

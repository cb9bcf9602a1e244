package progress

import (
	"runtime"
	"testing"
)

// TestLookElsewhere: an engine has one look, whose find opens the look's gate.
func TestLookElsewhere(t *testing.T) {
	var e Engine
	var g Gate
	found, slept := false, false
	look := func(sleep bool) bool {
		slept = slept || sleep
		return found
	}
	if !e.LookElsewhere(&g, look) || e.LookElsewhere(&g, look) {
		t.Fatal("an engine takes other than one look")
	}
	if e.lookElsewhere(false) || slept || g.Opened() != 0 {
		t.Error("a look that finds nothing opens the gate, or is asked to sleep")
	}
	if found = true; !e.lookElsewhere(true) || !slept || g.Opened() != 1 {
		t.Error("a look that finds something does not open the gate, or is not asked to sleep")
	}
	if !e.LookElsewhere(nil, nil) || e.lookElsewhere(true) || !e.LookElsewhere(&g, look) {
		t.Error("a look cannot be replaced")
	}
}

// TestLookElsewhereEnds: a look may be given and ended while another goroutine polls. The race detector finds
// unguarded uses.
func TestLookElsewhereEnds(t *testing.T) {
	e := &newCounter(&scripted{}, &Config{NoService: true}).e
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Lock()
		defer e.Unlock()
		w := e.Begin(t.Context())
		for range 100 {
			e.spinOnce(&w)
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
			var g Gate
			e.mu.Lock()
			e.LookElsewhere(&g, func(bool) bool { return false })
			e.LookElsewhere(nil, nil)
			e.mu.Unlock()
			runtime.Gosched()
		}
	}
}

package endpoint

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestPollMakesWay: a poll that has handled nothing lets other goroutines run, once
// one of them had to wait for the node. Else two that poll keep each other from
// it for milliseconds. Alone, and under virtual time, nobody makes way.
func TestPollMakesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that others run only when this one makes way
	for _, virtual := range []bool{false, true} {
		n := bareNode(&idleWay{})
		n.virtual = virtual
		b := newWaiting(t, n).bundle
		if b.Poll(); n.crowded != 0 {
			t.Fatal("the node is crowded by one goroutine")
		}
		var waited atomic.Bool
		n.mu.Lock()
		go func() {
			waited.Store(true)
			b.Poll()
			waited.Store(false)
		}()
		for !waited.Load() {
			runtime.Gosched()
		}
		for range 10 { // it has found the mutex taken
			runtime.Gosched()
		}
		n.mu.Unlock()
		for end := time.Now().Add(10 * time.Second); waited.Load(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("the other goroutine does not get the mutex")
			}
		}
		before := n.crowded
		if virtual {
			if before != 0 {
				t.Error("a simulated node is crowded")
			}
			continue
		}
		if before == 0 {
			t.Fatal("nobody has noticed that a goroutine waited")
		}
		var ran atomic.Bool
		go ran.Store(true)
		polls := 0
		for ; !ran.Load() && polls < before; polls++ { // the scheduler may choose the one that made way again
			b.Poll()
		}
		if !ran.Load() || polls > 100 || n.crowded != before-polls {
			t.Errorf("another has run: %v, after %d empty polls; polls that still make way: %d, before %d", ran.Load(), polls, n.crowded, before)
		}
	}
}

package driver

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGate counts who is inside when Shut returns.
func TestGate(t *testing.T) {
	for range 200 {
		g := NewGate()
		var inside, after atomic.Int32
		var gone atomic.Bool
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for g.Enter() {
					inside.Add(1)
					if gone.Load() {
						after.Add(1)
					}
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		evicted := false
		if !g.Shut(func() { evicted = true }) || !evicted || g.Open() {
			t.Fatal("the gate did not shut")
		}
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d are inside a shut gate", n)
		}
		gone.Store(true)
		if g.Shut(func() { t.Error("evicted twice") }) {
			t.Fatal("the gate shut twice")
		}
		all.Wait()
		if after.Load() != 0 || g.Enter() {
			t.Fatal("somebody entered a shut gate")
		}
	}
}

// TestGateWaits has somebody inside who leaves only when evicted.
func TestGateWaits(t *testing.T) {
	for range 200 {
		g, evict := NewGate(), make(chan struct{})
		if !g.Enter() {
			t.Fatal("a new gate is shut")
		}
		var left atomic.Bool
		go func() {
			<-evict
			left.Store(true)
			g.Leave()
		}()
		if g.Shut(func() { close(evict) }); !left.Load() {
			t.Fatal("Shut returned while somebody was inside")
		}
	}
}

package latch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// TestLatch has goroutines count under a latch, one of them while it is taken off the
// processor.
func TestLatch(t *testing.T) {
	const goroutines, each = 8, 2000
	var l Latch
	var all sync.WaitGroup
	count := 0
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				l.Lock()
				seen := count
				if g == 0 && i%100 == 0 {
					runtime.Gosched()
				}
				count = seen + 1
				l.Unlock()
			}
		})
	}
	all.Wait()
	if count != goroutines*each {
		t.Errorf("counted %d, want %d", count, goroutines*each)
	}
}

// TestWake: those that wait for a latch get it one after the other, without their naps
// coming to an end.
func TestWake(t *testing.T) {
	const goroutines = 4
	var l Latch
	l.Lock()
	got := make(chan int, goroutines)
	for g := range goroutines {
		go func() {
			l.wait(time.Hour)
			l.Unlock()
			got <- g
		}()
	}
	for l.waiting.Load() < goroutines {
		runtime.Gosched()
	}
	l.Unlock()
	for range goroutines {
		select {
		case <-got:
		case <-time.After(time.Minute):
			t.Fatal("somebody waits for a latch that nobody has")
		}
	}
	if !l.TryLock() || l.waiting.Load() != 0 {
		t.Errorf("it is locked, or %d wait", l.waiting.Load())
	}
}

// TestTryLock: a latch that is locked is not locked again.
func TestTryLock(t *testing.T) {
	var l Latch
	if !l.TryLock() || l.TryLock() {
		t.Error("want the first to lock, and the second to fail")
	}
	if l.Unlock(); !l.TryLock() {
		t.Error("unlocked, and not to be locked")
	}
}

// TestRelease wants of the plain stores what those of sync/atomic do.
func TestRelease(t *testing.T) {
	var u atomic.Uint64
	if Release(&u, 1<<63+5); u.Load() != 1<<63+5 {
		t.Errorf("stored %#x", u.Load())
	}
	var around struct {
		before, is, after atomic.Bool
	}
	if ReleaseBool(&around.is, true); !around.is.Load() || around.before.Load() || around.after.Load() {
		t.Errorf("true: %v", &around)
	}
	if ReleaseBool(&around.is, false); around.is.Load() {
		t.Error("false is not stored")
	}
	if n := unsafe.Sizeof(around.is); n != 4 {
		t.Errorf("a Bool has %d bytes; ReleaseBool writes 4", n)
	}
}

func BenchmarkLatch(b *testing.B) {
	b.Run("latch", func(b *testing.B) {
		var l Latch
		for b.Loop() {
			l.Lock()
			l.Unlock()
		}
	})
	b.Run("mutex", func(b *testing.B) {
		var l sync.Mutex
		for b.Loop() {
			l.Lock()
			l.Unlock()
		}
	})
}

// TestWaitAllocatesNothing: who sleeps until a latch is unlocked allocates nothing, with
// the race detector on, too, under which a sync.Pool drops what it is given now and then.
func TestWaitAllocatesNothing(t *testing.T) {
	var l Latch
	locked, unlocked := make(chan struct{}), make(chan struct{})
	defer close(locked)
	go func() {
		for range locked {
			for l.waiting.Load() == 0 {
				runtime.Gosched()
			}
			l.Unlock()
			unlocked <- struct{}{}
		}
	}()
	allocs := testing.AllocsPerRun(200, func() {
		for range 10 {
			l.Lock()
			locked <- struct{}{}
			l.Lock()
			l.Unlock()
			<-unlocked
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations in 10 waits, want 0", allocs)
	}
}

// Package latch has what takes less than the locks and atomic stores of the standard
// library where one goroutine has a thing to itself nearly always.
package latch

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Latch is a mutex for short sections that one goroutine enters nearly always: a
// link's Send and Recv, beside which calls, checks and Close are rare, or a node of
// active messages that one goroutine polls. It takes half the time of a sync.Mutex,
// 10 ns of a frame's 250, because Unlock is a plain store: it wakes
// nobody. Who finds a Latch locked looks again and again.
type Latch struct{ held atomic.Uint32 }

// Lock locks the latch.
func (l *Latch) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait()
	}
}

// TryLock locks the latch if it is not locked, and reports whether it has.
func (l *Latch) TryLock() bool { return l.held.CompareAndSwap(0, 1) }

// Unlock unlocks the latch, which is locked.
func (l *Latch) Unlock() { release(&l.held, 0) }

// A latch is looked at latchTries times, others running in between, and then after
// sleeps of latchNap, twice that and so on, up to latchLong: a node that is closed
// keeps its latch until its last answers have arrived.
const (
	latchTries = 64
	latchNap   = 20 * time.Microsecond
	latchLong  = time.Millisecond
)

func (l *Latch) wait() {
	nap := latchNap
	for n := 1; l.held.Load() != 0 || !l.held.CompareAndSwap(0, 1); n++ {
		if n < latchTries {
			runtime.Gosched()
		} else {
			time.Sleep(nap) // its holder has been taken off the processor, or takes long
			nap = min(2*nap, latchLong)
		}
	}
}

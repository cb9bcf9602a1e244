// Package latch provides a mutex and atomic stores. They are faster than those of the standard
// library if nearly always the same goroutine uses the guarded data. The package is in this room,
// and not in progress, because links use it (internal/link/shm, internal/myrinet/plain), and a link
// must not import the package that drives it.
package latch

import (
	"sync/atomic"
	"time"
)

// Latch is a mutex for short sections that nearly always one goroutine enters: a link's Send and
// Recv, compared with which checks and Close are rare, or a node of active messages that one
// goroutine polls. It takes half the time of a sync.Mutex, 10 ns of the 250 ns of a frame, because
// its Unlock is a plain store and a plain load, and Unlock of a sync.Mutex needs an exchange. It is
// not fair: the goroutine that unlocks it may lock it again before goroutines that wait, which then
// continue to wait.
type Latch struct {
	held    atomic.Uint32
	waiting atomic.Int32
	bell    atomic.Pointer[chan struct{}] // channel of capacity 1; nil before the first wait
}

// Lock locks the latch.
func (l *Latch) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait(latchNap)
	}
}

// TryLock locks the latch if it is not locked, and reports whether it has locked it.
func (l *Latch) TryLock() bool { return l.held.CompareAndSwap(0, 1) }

// Unlock unlocks the latch, which must be locked.
func (l *Latch) Unlock() {
	release(&l.held, 0)
	if l.waiting.Load() != 0 {
		l.wake()
	}
}

//go:noinline
func (l *Latch) wake() {
	select {
	case *l.bell.Load() <- struct{}{}:
	default: // the channel already contains a token
	}
}

// Lock tries latchTries times, for about as long as a goroutine on another processor usually keeps
// the latch locked. Then it sleeps until the latch is unlocked. Unlock may miss a goroutine that
// has just begun to wait, because a plain store is not a fence: the processor may execute the
// following load before other processors see the store. Each sleep is therefore limited to a short
// time.
const (
	latchTries = 200
	latchNap   = time.Millisecond
)

// timers holds unused timers for goroutines that wait. It is not a sync.Pool, because every second
// garbage collection empties a pool, and a pool drops one in four items under the race detector.
var timers = make(chan *time.Timer, 64)

func takeTimer() *time.Timer {
	select {
	case timer := <-timers:
		return timer
	default:
		return time.NewTimer(time.Hour)
	}
}

func keepTimer(timer *time.Timer) {
	timer.Stop()
	select {
	case timers <- timer:
	default: // the list of unused timers is full
	}
}

func (l *Latch) wait(nap time.Duration) {
	for range latchTries {
		if l.held.Load() == 0 && l.TryLock() {
			return
		}
	}
	if l.bell.Load() == nil {
		bell := make(chan struct{}, 1)
		l.bell.CompareAndSwap(nil, &bell)
	}
	bell, timer := *l.bell.Load(), takeTimer()
	l.waiting.Add(1)
	for !l.TryLock() {
		timer.Reset(nap)
		select {
		case <-bell:
		case <-timer.C:
		}
	}
	l.waiting.Add(-1)
	keepTimer(timer)
}

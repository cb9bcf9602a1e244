// Package latch holds a mutex and stores that take less time than those of the standard
// library where nearly always one goroutine uses what they guard. It lies in this room, and
// not in progress, because links use it (internal/link/shm, internal/myrinet/plain), and no link
// may import what drives it.
package latch

import (
	"sync/atomic"
	"time"
)

// Latch is a mutex for short sections that one goroutine enters nearly always: a
// link's Send and Recv, beside which calls, checks and Close are rare, or a node of
// active messages that one goroutine polls. It takes half the time of a sync.Mutex,
// 10 ns of a frame's 250, because Unlock is a plain store and a plain load, where that of
// sync.Mutex has an exchange. It is not fair: the goroutine that unlocks it may lock it
// again before those that wait, which then wait again.
type Latch struct {
	held    atomic.Uint32
	waiting atomic.Int32
	bell    atomic.Pointer[chan struct{}] // of capacity 1, once somebody has waited
}

// Lock locks the latch.
func (l *Latch) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait(latchNap)
	}
}

// TryLock locks the latch if it is not locked, and reports whether it has.
func (l *Latch) TryLock() bool { return l.held.CompareAndSwap(0, 1) }

// Unlock unlocks the latch, which is locked.
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
	default: // a token is in the channel already
	}
}

// Lock tries latchTries times, which takes as long as a goroutine on another processor
// usually has the latch locked. Then it sleeps until the latch is unlocked. Unlock may not
// see a goroutine that has just begun to wait, because a plain store is no fence: the
// processor may do the load behind it before others see the store. So no sleep is longer
// than a nap.
const (
	latchTries = 200
	latchNap   = time.Millisecond
)

// timers are those of goroutines that have waited, for the next ones. A sync.Pool would be
// emptied by each second garbage collection, and with the race detector it drops one in four.
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
	default: // as many wait at once as are kept
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

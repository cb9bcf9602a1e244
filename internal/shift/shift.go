// Package shift makes goroutines that sleep in system calls, or spin, yield to Go's scheduler from
// time to time. It is in this room, and not in progress, because links that sleep use it, too
// (transport/internal/sleep), and a link must not import the package that drives it.
package shift

import (
	"runtime"
	"time"
)

// Shift is for a goroutine that never waits for another one: it sleeps in system calls or spins,
// and works in between. Such a goroutine never calls Go's scheduler, so the scheduler's monitor
// assumes that it has run all the time. After 10 ms (forcePreemptNS) the monitor takes the
// processor (P) away from each system call in which it finds the goroutine, and gives it to another
// thread, which searches for work. It repeats this every 20 µs. This causes some thousand thread
// switches a second, which are expensive if there are few processors. So the goroutine yields
// before 10 ms have passed. A yield also wakes a thread, so it happens no more often than
// necessary.
//
// The zero Shift is ready. One goroutine uses it at a time.
type Shift struct{ since int64 }

// every is the time between yields: the monitor's 10 ms minus the longest wait that matters.
const every = int64(8 * time.Millisecond)

// Over reports whether the goroutine's shift is over, so that the caller must call runtime.Gosched.
// now is the time on any clock, in nanoseconds.
func (s *Shift) Over(now int64) bool {
	if now-s.since < every {
		return false
	}
	s.since = now
	return true
}

// Pass yields to the scheduler if the shift is over.
func (s *Shift) Pass(now int64) {
	if s.Over(now) {
		runtime.Gosched()
	}
}

// Package shift makes goroutines that sleep in system calls, or spin, yield to Go's
// scheduler now and then. It lies in this room, and not in progress, because links that
// sleep use it, too (transport/internal/sleep), and no link may import what drives it.
package shift

import (
	"runtime"
	"time"
)

// Shift is for a goroutine that never waits for another: it sleeps in system calls, or
// spins, and works in between. Such a goroutine never goes through Go's scheduler, and
// looks to the scheduler's monitor as if it had run for all that time. From 10 ms on
// (forcePreemptNS) the monitor takes the processor (P) away from every system call that it
// finds the goroutine in, and passes it to another thread, which looks for work; 20 us
// later it does so again. These are some thousand thread switches a second, which cost
// much where processors are scarce. So the goroutine yields before. A yield wakes a thread
// too, so it does so no more often than necessary.
//
// The zero Shift is ready. One goroutine uses it at a time.
type Shift struct{ since int64 }

// every is the time between yields: less than the monitor's 10 ms, by the longest wait
// that matters.
const every = int64(8 * time.Millisecond)

// Over reports, now and then, that the goroutine's shift is over: it has to call
// runtime.Gosched. now is the time on any clock, in nanoseconds.
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

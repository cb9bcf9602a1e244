// Package shift keeps goroutines that wait by themselves on good terms with Go's
// scheduler.
package shift

import (
	"runtime"
	"time"
)

// Shift is for a goroutine that never waits for another: it sleeps in system calls, or
// spins, and works in between. Such a one never goes through Go's scheduler, and to
// its monitor looks as if it had run for all that time. From 10 ms on (forcePreemptNS)
// the monitor takes the processor (P) away from every system call that it finds the
// goroutine in, hands it to another thread, which looks for work, and comes back 20 us
// later to do the same: some thousand thread switches a second, which are felt where
// processors are scarce. So the goroutine yields in time. That wakes a thread too,
// hence not often.
//
// The zero Shift is ready. One goroutine uses it at a time.
type Shift struct{ since int64 }

// every is shorter than the monitor's patience by what a wait takes at most that is
// worth the trouble.
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

// Pass lets others run if the shift is over.
func (s *Shift) Pass(now int64) {
	if s.Over(now) {
		runtime.Gosched()
	}
}

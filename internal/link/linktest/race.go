package linktest

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// The tests in this file let Wake race with a Wait that is about to block, or about to return.
// Whether it hits the critical window is chance. There are therefore many rounds with different
// delays.

// start is a barrier at which two goroutines meet before each round.
type start struct{ arrived atomic.Int64 }

// Delays after the barrier: a number of steps, each of so many loads of about a nanosecond.
// wakeSteps*waitSteps rounds cover every difference.
const (
	wakeSteps = 12
	waitSteps = 13
	stepLoads = 20
	// spinLoads is how often the first goroutine polls for the other one before it yields its
	// processor. After a yield it would be late.
	spinLoads = 100_000
)

// meet returns a number of steps after the other goroutine has reached the same round.
func (s *start) meet(round, steps int) {
	s.arrived.Add(1)
	for tries := 0; s.arrived.Load() < 2*int64(round+1); tries++ {
		if tries > spinLoads {
			runtime.Gosched()
		}
	}
	for range steps * stepLoads {
		s.arrived.Load()
	}
}

// release lets the other goroutine pass the barrier, in this and all later rounds.
func (s *start) release() { s.arrived.Add(1 << 32) }

// wakeAnytime wakes a goroutine that is entering Wait: Wait returns, wherever it was.
func (s *suite) wakeAnytime() {
	const rounds = 10 * wakeSteps * waitSteps
	var line start
	done := make(chan error, 1)
	go func() {
		for round := range rounds {
			line.meet(round, round%waitSteps)
			err := s.B.Wait(transport.Forever)
			if done <- err; err != nil {
				return
			}
		}
	}()
	for round := range rounds {
		line.meet(round, round%wakeSteps)
		s.B.Wake()
		if err := s.within("Wake", done); err != nil {
			s.Fatal(err)
		}
	}
	s.quiet()
}

// wakeAtEnd wakes a goroutine whose Wait ends anyway because a frame has arrived. A leftover
// wake-up may end one later Wait, but not all.
func (s *suite) wakeAtEnd() {
	const rounds = wakeSteps * waitSteps
	f := s.frame([]byte("here"))
	var line start
	woken := make(chan struct{}, rounds)
	go func() {
		for round := range rounds {
			line.meet(round, round%wakeSteps)
			s.B.Wake()
			woken <- struct{}{}
		}
	}()
	defer line.release() // if a round fails
	for round := range rounds {
		s.send(f)
		for !s.B.Ready() {
			if err := s.B.Wait(s.B.Now() + patience); err != nil {
				s.Fatal(err)
			}
		}
		line.meet(round, round%waitSteps)
		err := s.B.Wait(transport.Forever)
		if <-woken; err != nil {
			s.Fatal(err)
		}
		s.expect(s.B, f)
		s.quiet()
	}
}

// quiet requires B to be idle, after at most one Wait that a late wake-up has ended.
func (s *suite) quiet() {
	s.Helper()
	if n, err := s.B.Recv(make([][]byte, 1)); n != 0 || err != nil {
		s.Fatalf("Recv = %d, %v", n, err)
	}
	if err := s.B.Wait(s.B.Now()); err != nil {
		s.Fatal(err)
	}
	s.idleFor(s.B, 100*time.Microsecond)
}

package linktest

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// The tests in this file let Wake race with a Wait that is about to block, or
// about to return. Whether it comes between the two instructions that matter is
// chance; so there are many rounds, and in each the two set off at other times.

// start is where two goroutines meet before each round.
type start struct{ arrived atomic.Int64 }

// How long they stay: a number of steps, each of so many loads, which take about
// a nanosecond. Within wakeSteps*waitSteps rounds there is every difference.
const (
	wakeSteps = 12
	waitSteps = 13
	stepLoads = 20
	// spinLoads is how often who comes first looks for the other one before it
	// yields its processor: who yields is late.
	spinLoads = 100_000
)

// meet returns some steps after the other one has come to the same round.
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

// open lets who waits at the start pass it, in this and all later rounds.
func (s *start) open() { s.arrived.Add(1 << 32) }

// wakeAnytime wakes a goroutine that is on its way into Wait: however far it
// has come, it returns.
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

// wakeAtEnd wakes a goroutine whose Wait ends anyhow, because a frame is there.
// What is left of the wake-up may end another Wait, but not all there are.
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
	defer line.open() // should a round fail
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

// quiet wants B to be idle once a wake-up that came late has ended a Wait.
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

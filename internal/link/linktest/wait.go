package linktest

import (
	"runtime"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// within fails the test unless the Wait of a second goroutine returns in time.
func (s *suite) within(what string, done <-chan error) error {
	s.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Duration(patience)):
		s.Fatalf("%s: Wait has not returned", what)
		return nil
	}
}

// idleFor waits on l until the clock has advanced by d. It fails if Wait keeps returning early
// although nothing happens.
func (s *suite) idleFor(l transport.Link, d time.Duration) {
	s.Helper()
	until := l.Now() + int64(d)
	for tries := 0; l.Now() < until; tries++ {
		if tries == 4 {
			s.Fatalf("Wait returned %d times before its time", tries)
		}
		if err := l.Wait(until); err != nil {
			s.Fatalf("Wait: %v", err)
		}
	}
}

func (s *suite) waitDeadline() {
	s.idleFor(s.B, 3*time.Millisecond)
	s.idleFor(s.B, 20*time.Microsecond)
	for _, until := range []int64{s.B.Now(), s.B.Now() - int64(time.Second), 0} {
		if err := s.B.Wait(until); err != nil {
			s.Errorf("Wait for the past: %v", err)
		}
	}
}

// waitFrame waits for a frame that has arrived, or is in flight.
func (s *suite) waitFrame() {
	f := s.frame([]byte("here"))
	for range 3 {
		s.send(f)
		for !s.B.Ready() {
			if err := s.B.Wait(transport.Forever); err != nil {
				s.Fatal(err)
			}
		}
		if err := s.B.Wait(transport.Forever); err != nil {
			s.Fatal(err)
		}
		s.expect(s.B, f)
	}
	s.send(f, f, f) // a link may receive all of them in one call
	for range 3 {
		end := s.B.Now() + patience
		if err := s.B.Wait(end); err != nil || s.B.Now() >= end {
			s.Fatalf("Wait for a frame that is left: %v; counters: %+v", err, s.B.Stats())
		}
		s.expect(s.B, f)
	}
	if n, _ := s.B.Recv(make([][]byte, 1)); n != 0 {
		s.Fatal("a frame came twice")
	}
	s.idleFor(s.B, time.Millisecond)
}

// wakeBefore calls Wake while no goroutine waits: the next Wait returns, the one after it does not.
func (s *suite) wakeBefore() {
	s.B.Wake()
	s.B.Wake()
	if err := s.B.Wait(transport.Forever); err != nil {
		s.Fatal(err)
	}
	s.idleFor(s.B, time.Millisecond)
	if st := s.B.Stats(); st.Wakes != 2 {
		s.Errorf("Wakes = %d, want 2", st.Wakes)
	}
}

// waiter starts a goroutine that waits on B without a limit, and returns when it is about to block.
func (s *suite) waiter() <-chan error {
	before := s.B.Stats().Waits
	done := make(chan error, 1)
	go func() { done <- s.B.Wait(transport.Forever) }()
	for s.B.Stats().Waits == before {
		runtime.Gosched()
	}
	return done
}

func (s *suite) wakeDuring() {
	for range 100 {
		done := s.waiter()
		s.B.Wake()
		if err := s.within("Wake", done); err != nil {
			s.Fatal(err)
		}
	}
	s.idleFor(s.B, time.Millisecond)
}

func (s *suite) frameDuring() {
	f := s.frame([]byte("wake up"))
	for range 100 {
		done := s.waiter()
		s.send(f)
		if err := s.within("frame", done); err != nil {
			s.Fatal(err)
		}
		s.expect(s.B, f)
		if n, err := s.B.Recv(make([][]byte, 1)); n != 0 || err != nil {
			s.Fatalf("Recv = %d, %v", n, err)
		}
	}
}

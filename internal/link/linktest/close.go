package linktest

import (
	"errors"
	"runtime"
	"sync"

	"github.com/bobnet-go/bobnet/transport"
)

// closed uses a link after Close.
func (s *suite) closed() {
	f := s.frame([]byte("lent"))
	s.send(f)
	s.expect(s.B, f)
	before := s.B.Stats()
	for range 3 {
		if err := s.B.Close(); err != nil {
			s.Fatalf("Close: %v", err)
		}
	}
	if n, err := s.B.Send([]transport.Frame{f}); n != 0 || !errors.Is(err, transport.ErrClosed) {
		s.Errorf("Send = %d, %v; want 0, ErrClosed", n, err)
	}
	if n, err := s.B.Recv(make([][]byte, 1)); n != 0 || !errors.Is(err, transport.ErrClosed) {
		s.Errorf("Recv = %d, %v; want 0, ErrClosed", n, err)
	}
	if err := s.B.Wait(transport.Forever); !errors.Is(err, transport.ErrClosed) {
		s.Errorf("Wait = %v, want ErrClosed", err)
	}
	s.B.Ready()
	s.B.Wake()
	if s.B.Now() == 0 || s.B.Info().MTU != s.A.Info().MTU {
		s.Errorf("Now or Info changed with Close: %d, %+v", s.B.Now(), s.B.Info())
	}
	if after := s.B.Stats(); after.RxFrames != before.RxFrames || after.RxBytes != before.RxBytes {
		s.Errorf("counters changed with Close: %+v, before %+v", after, before)
	}
	s.send(f) // to a station that has left: the sender cannot know
}

func (s *suite) closeDuringWait() {
	done := s.waiter()
	if err := s.B.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	if err := s.within("Close", done); !errors.Is(err, transport.ErrClosed) {
		s.Errorf("Wait = %v, want ErrClosed", err)
	}
}

// closeDuringAll closes while every method is in use, twice at a time.
func (s *suite) closeDuringAll() {
	f := s.frame([]byte("busy"))
	var busy, closers sync.WaitGroup
	start := make(chan struct{})
	loop := func(step func() error) {
		busy.Go(func() {
			<-start
			for {
				if err := step(); err != nil {
					if !errors.Is(err, transport.ErrClosed) {
						s.Errorf("%v, want ErrClosed", err)
					}
					return
				}
				runtime.Gosched()
			}
		})
	}
	gone := make(chan struct{})
	until := func(call func()) func() error {
		return func() error {
			call()
			select {
			case <-gone:
				return transport.ErrClosed
			default:
				return nil
			}
		}
	}
	views := make([][]byte, 8)
	loop(func() error { // the lock that callers hold around both
		if _, err := s.B.Send([]transport.Frame{f}); err != nil {
			return err
		}
		_, err := s.B.Recv(views)
		return err
	})
	loop(func() error { return s.B.Wait(transport.Forever) })
	loop(until(func() { s.B.Ready() }))
	loop(until(func() { s.B.Wake() }))
	loop(until(func() { s.B.Stats() }))
	loop(until(func() { s.B.Info() }))
	close(start)
	for range 20 {
		s.send(f)
	}
	for range 2 {
		closers.Go(func() { s.B.Close() })
	}
	closers.Wait()
	close(gone)
	busy.Wait()
}

package progress

import (
	"sync"
	"time"
)

// service drives the engine while nobody waits, so that acknowledgements,
// retransmissions, RDMA and connection requests go on while the application
// computes. While goroutines of the program poll, it only checks from time to time
// whether they still do: a second thread on the socket would slow every frame down.
type service struct {
	engine *Engine
	quit   chan struct{}
	done   sync.WaitGroup
	// refused is how often in succession it has found the lock taken. Goroutines that
	// send a stream have the lock most of the time. To wait for it would make them hand
	// it over and wake a thread each time.
	refused int
}

const (
	serviceTick    = 2 * time.Millisecond // between checks while callers poll
	serviceTickMax = 16 * time.Millisecond
	serviceRefused = 8         // failed attempts in succession, after which it waits for the lock
	serviceQuiet   = 1_000_000 // ns without a caller's poll before the service takes over
)

// stop ends the goroutine. The link has been closed. If wait is false, because the
// goroutine runs one of the program's calls, it ends when that call returns.
func (s *service) stop(wait bool) {
	close(s.quit)
	if wait {
		s.done.Wait()
	}
}

// lock takes the engine's lock. It reports false if a caller has it. After serviceRefused
// failed attempts in succession it waits for the lock.
func (s *service) lock() bool {
	if !s.engine.mu.TryLock() {
		if s.refused++; s.refused < serviceRefused {
			return false
		}
		s.engine.mu.Lock()
	}
	s.refused = 0
	return true
}

// unlock gives up the engine's lock as Engine.Unlock does.
func (s *service) unlock() {
	e := s.engine
	defer e.mu.Unlock()
	if e.calls.due() {
		e.calls.byService = true
		defer func() { e.calls.byService = false }()
		e.runCalls()
	}
}

func (s *service) run() {
	defer s.done.Done()
	tick := serviceTick
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		switch s.turn() {
		case turnEnded:
			return
		case turnLed:
			tick = serviceTick
			continue
		case turnAsleep: // a caller sleeps on the link and drives the engine when it wakes
			tick = min(2*tick, serviceTickMax)
		case turnBusy:
			tick = serviceTick
		}
		timer.Reset(tick)
		select {
		case <-timer.C:
		case <-s.quit:
			return
		}
	}
}

type turn uint8

const (
	turnEnded  turn = iota
	turnLed         // the service drove the engine
	turnBusy        // callers poll
	turnAsleep      // a caller is blocked on the link
)

// turn drives the engine once, blocking on the link, unless callers do.
func (s *service) turn() turn {
	e := s.engine
	if !s.lock() {
		return turnBusy
	}
	defer s.unlock()
	l := &e.lead
	switch {
	case e.shut:
		return turnEnded
	case l.sleeping:
		return turnAsleep
	case l.taken || e.link.Now()-l.lastPoll < serviceQuiet:
		return turnBusy
	}
	last := l.lastPoll
	e.Poll()
	e.machine.Idle()
	l.lastPoll = last
	if e.machine.Failed() != nil {
		return turnEnded
	}
	if e.calls.due() {
		return turnLed
	}
	l.byService, l.kicked = true, false
	e.sleepAt(nil, min(e.machine.NextTimer(), l.due))
	l.byService = false
	for _, p := range l.followers { // one of them may have become the leader while the service slept
		if !p.parked {
			p.wake()
		}
	}
	if e.shut {
		return turnEnded
	}
	return turnLed
}

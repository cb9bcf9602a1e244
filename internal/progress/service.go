package progress

import (
	"sync"
	"time"
)

// service drives the engine while no goroutine waits, so that acknowledgements, retransmissions,
// RDMA and connection requests proceed while the application computes. While the program polls, the
// service only checks from time to time whether it still does: a second thread on the socket would
// slow every frame down.
type service struct {
	engine *Engine
	quit   chan struct{}
	done   sync.WaitGroup
	// refused counts consecutive attempts that found the lock taken. Goroutines that send a stream
	// hold the lock most of the time. Waiting for it would force a hand-over and a thread wake-up
	// each time.
	refused int
}

const (
	serviceTick    = 2 * time.Millisecond // between checks while the program polls
	serviceTickMax = 16 * time.Millisecond
	serviceRefused = 8         // consecutive failed attempts after which the service waits for the lock
	serviceQuiet   = 1_000_000 // ns without a poll by the program before the service takes over
)

// stop ends the goroutine after the link has been closed. If wait is false, because the goroutine
// runs a call of the program, it ends when that call returns.
func (s *service) stop(wait bool) {
	close(s.quit)
	if wait {
		s.done.Wait()
	}
}

// lock acquires the engine's lock. It returns false if a caller holds the lock. After
// serviceRefused consecutive failures it waits for the lock.
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

// unlock releases the engine's lock like Engine.Unlock.
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
	turnBusy        // the program polls
	turnAsleep      // a goroutine of the program is blocked on the link
)

// turn drives the engine once, blocking on the link, unless the program does.
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
	for _, p := range l.followers { // one of them may have become the leader during the sleep
		if !p.parked {
			p.wake()
		}
	}
	if e.shut {
		return turnEnded
	}
	return turnLed
}

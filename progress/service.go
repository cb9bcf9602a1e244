package progress

import (
	"sync"
	"time"
)

// service drives the engine while nobody waits, so that acknowledgements,
// retransmissions, RDMA and connection requests go on while the application
// computes. While callers poll, it only looks in from time to time: a second
// thread on the socket would slow every frame down.
type service struct {
	engine *Engine
	quit   chan struct{}
	done   sync.WaitGroup
	// refused is how often in succession it has found the lock taken, which callers in
	// the midst of a stream have most of the time: to wait for it would take it away
	// from them, and a thread to wake for each.
	refused int
}

const (
	serviceTick    = 2 * time.Millisecond // between looks while callers poll
	serviceTickMax = 16 * time.Millisecond
	serviceRefused = 8         // looks in vain, after which it waits for the lock
	serviceQuiet   = 1_000_000 // ns without a caller's poll before the service takes over
)

// stop ends the goroutine. The link is closed by then. Without wait, because
// the goroutine is inside a call, it ends when that returns.
func (s *service) stop(wait bool) {
	close(s.quit)
	if wait {
		s.done.Wait()
	}
}

// lock takes the engine's lock. It reports false if callers have it, unless they have
// had it each of the last times.
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
		case turnAsleep: // a caller sleeps on the socket and will see to everything
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
	for _, p := range l.followers { // the leader may be one of them, waiting for the link
		if !p.parked {
			p.wake()
		}
	}
	if e.shut {
		return turnEnded
	}
	return turnLed
}

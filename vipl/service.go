package vipl

import (
	"sync"
	"time"
)

// service drives the engine while nobody waits, so that acknowledgements,
// retransmissions, RDMA and connection requests go on while the application
// computes. While callers poll, it only looks in from time to time: a second
// thread on the socket would slow every frame down.
type service struct {
	nic  *NIC
	quit chan struct{}
	done sync.WaitGroup
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

func startService(n *NIC) *service {
	s := &service{nic: n, quit: make(chan struct{})}
	s.done.Add(1)
	go s.run()
	return s
}

// stop ends the goroutine. The link is closed by then. Without wait, because
// the goroutine is inside a handler, it ends when that returns.
func (s *service) stop(wait bool) {
	close(s.quit)
	if wait {
		s.done.Wait()
	}
}

// lock takes the engine's lock. It reports false if callers have it, unless they have
// had it each of the last times.
func (s *service) lock() bool {
	if !s.nic.mu.TryLock() {
		if s.refuse() {
			return false
		}
		s.nic.mu.Lock()
	}
	s.refused = 0
	return true
}

// refuse notes that callers have the lock, and reports whether to come back later.
func (s *service) refuse() bool {
	s.refused++
	return s.refused < serviceRefused
}

// unlock gives up the engine's lock as NIC.unlock does.
func (s *service) unlock() {
	n := s.nic
	defer n.mu.Unlock()
	if n.calls.due() {
		n.calls.byService = true
		n.runCalls()
		n.calls.byService = false
	}
}

func (s *service) run() {
	defer s.done.Done()
	tick := serviceTick
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		switch s.turn() {
		case turnClosed:
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
	turnClosed turn = iota
	turnLed         // the service drove the engine
	turnBusy        // callers poll
	turnAsleep      // a caller is blocked on the link
)

// turn drives the engine once, blocking on the link, unless callers do.
func (s *service) turn() turn {
	n := s.nic
	if !s.lock() {
		return turnBusy
	}
	defer s.unlock()
	l := &n.lead
	switch {
	case n.closed:
		return turnClosed
	case n.dead != nil:
		n.bury()
		return turnClosed
	case l.sleeping:
		return turnAsleep
	case l.taken || n.link.Now()-l.lastPoll < serviceQuiet:
		return turnBusy
	}
	last := l.lastPoll
	n.poll()
	n.catchUp() // no caller is back for it
	n.idlePoll()
	if n.tx.n > 0 {
		n.tx.flush(n)
	}
	l.lastPoll = last
	if n.calls.due() {
		return turnLed
	}
	n.findTimer()
	l.sleeping, l.byService, l.kicked = true, true, false
	l.until = n.timers.next
	until := l.until
	n.mu.Unlock()
	err := n.link.Wait(until)
	n.mu.Lock()
	l.sleeping, l.byService = false, false
	n.bulk.wake()
	if err != nil {
		n.linkError(err)
	}
	for _, f := range l.followers { // the leader may be one of them, waiting for the link
		f.wake()
	}
	if n.closed {
		return turnClosed
	}
	return turnLed
}

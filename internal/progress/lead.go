package progress

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// leadership records which goroutine drives the engine. At most one, the leader, polls the link,
// and sleeps on it when its spin budget is used up. Each follower sleeps at its own place.
type leadership struct {
	taken     bool
	sleeping  bool  // a goroutine is in link.Wait
	sleepsAt  *Gate // the gate that it waits at
	until     int64 // when its sleep ends by itself
	byService bool  // it is the service goroutine
	kicked    bool  // the service goroutine must leave link.Wait
	woke      bool  // followers were woken since the leader last yielded
	lastPoll  int64 // when a caller, not the service, last polled
	followers []*place
	due       int64  // the earliest deadline of the followers, or an earlier time
	free      *place // linked list
}

// place is where one follower sleeps. The engine reuses places.
type place struct {
	ch      chan struct{}  // of capacity 1; nil in virtual time
	virtual optional.Place // in virtual time, otherwise nil
	next    *place         // at the same gate, or in the free list
	until   int64
	parked  bool // by Park: its goroutine never becomes the leader
}

func (p *place) wake() {
	if p.virtual != nil {
		p.virtual.Wake()
		return
	}
	select {
	case p.ch <- struct{}{}:
	default: // the follower has been woken already and has not run yet
	}
}

// sleep returns when the place is woken or end is closed. end is the Done channel of the wait's
// context; it may be nil.
func (p *place) sleep(end <-chan struct{}) {
	switch {
	case p.virtual != nil:
		p.virtual.Wait(p.until)
	case end == nil:
		<-p.ch
	default:
		select {
		case <-p.ch:
		case <-end:
		}
	}
}

// WakeAll ends the current call of every wait, so that its caller checks again, for example because
// the machine closes. The caller must hold the lock.
func (e *Engine) WakeAll() {
	for _, p := range e.lead.followers {
		p.wake()
	}
	e.link.Wake()
}

// WakeBefore wakes the goroutine that sleeps on the link if it would sleep past at. A machine calls
// it when it moves a timer forward. The caller must hold the lock.
func (e *Engine) WakeBefore(at int64) {
	if l := &e.lead; l.sleeping && at < l.until {
		l.until = at
		e.link.Wake()
	}
}

// Led reports whether a goroutine leads, or sleeps on the link. The caller must hold the lock.
func (e *Engine) Led() bool { return e.lead.taken || e.lead.sleeping }

// polled records that a caller drives the engine, and makes the service leave link.Wait.
func (l *leadership) polled(e *Engine) {
	l.lastPoll = e.now
	if l.byService && !l.kicked {
		l.kicked = true
		e.link.Wake()
	}
}

// wakeDue wakes the followers whose deadline has passed, and sets due to the next deadline.
func (l *leadership) wakeDue(now int64) {
	l.due = transport.Forever
	for _, p := range l.followers {
		if p.until <= now {
			p.wake()
		} else {
			l.due = min(l.due, p.until)
		}
	}
}

// next wakes a follower to become the leader, unless there is one.
func (l *leadership) next() {
	if !l.taken && len(l.followers) > 0 {
		l.wakeNext()
	}
}

func (l *leadership) wakeNext() {
	for _, p := range l.followers {
		if !p.parked {
			p.wake()
			return
		}
	}
}

// Park is WaitSince for a goroutine that never leads and never polls. A package whose goroutines
// wait for different entries of one queue lets one of them wait for the queue. That goroutine opens
// the gates of the others when there are entries for them. Before it leaves, it opens the gate of
// its successor.
func (e *Engine) Park(w *Waiter, g *Gate, opened uint32) error {
	for look := 0; g.opened == opened; look++ {
		e.now = e.link.Now()
		if w.started == 0 {
			w.started = e.now
		}
		if err := e.machine.Failed(); err != nil {
			return &EndError{Failed: err, After: time.Duration(e.now - w.started)}
		}
		if err := w.expired(e); err != nil || look > 0 {
			return err
		}
		e.follow(w, g, true)
	}
	return nil
}

// follow blocks until the gate opens, the deadline of the wait passes, or the goroutine becomes the
// leader, which a parked one never does.
func (e *Engine) follow(w *Waiter, g *Gate, parked bool) {
	l := &e.lead
	p := l.free
	if p != nil {
		l.free = p.next
	} else {
		p = e.newPlace()
	}
	p.next, g.blocked = g.blocked, p
	l.followers = append(l.followers, p)
	var end <-chan struct{}
	if w.cancellable(e) {
		end = w.ctx.Done()
	}
	w.slept, p.parked, p.until = true, parked, w.until()
	if p.until < l.due {
		l.due = p.until
		e.WakeBefore(p.until)
	}
	e.mu.Unlock()
	p.sleep(end)
	e.mu.Lock()
	g.remove(p)
	l.remove(p)
	p.next, l.free = l.free, p
}

func (e *Engine) newPlace() *place {
	if e.virtual {
		if v := optional.PlaceOf(e.link); v != nil {
			return &place{virtual: v}
		}
	}
	return &place{ch: make(chan struct{}, 1)}
}

func (g *Gate) remove(p *place) {
	for at := &g.blocked; *at != nil; at = &(*at).next {
		if *at == p {
			*at = p.next
			return
		}
	}
}

func (l *leadership) remove(p *place) {
	for i, f := range l.followers {
		if f == p {
			last := len(l.followers) - 1
			l.followers[i] = l.followers[last]
			l.followers[last] = nil
			l.followers = l.followers[:last]
			break
		}
	}
	if p.ch != nil {
		select {
		case <-p.ch: // woken twice
		default:
		}
	}
}

// State describes which goroutine drives an engine, and how long waits spin.
type State struct {
	Driver    string        // "nobody", "caller spins", "caller asleep", "service asleep", "service looks in"
	Followers int           // goroutines that wait, without the leader
	LastPoll  time.Duration // time since a goroutine of the program, not the service, last polled
	Spin      time.Duration // how long a wait currently polls before it blocks
}

// State returns the state of the engine at now, a time of the link's clock. The caller must hold
// the lock.
func (e *Engine) State(now int64) State {
	l := &e.lead
	s := State{Driver: "nobody", Followers: len(l.followers), LastPoll: time.Duration(now - l.lastPoll), Spin: time.Duration(e.spin.budget(now))}
	switch {
	case e.shut:
	case l.sleeping && l.byService:
		s.Driver = "service asleep"
	case l.sleeping:
		s.Driver = "caller asleep"
	case l.taken:
		s.Driver = "caller spins"
	case e.service != nil:
		s.Driver = "service looks in"
	}
	return s
}

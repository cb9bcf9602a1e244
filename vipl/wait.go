package vipl

import (
	"context"
	"fmt"
	"time"
)

// Who runs the engine
//
// A goroutine that waits drives the engine itself. At most one is the leader:
// it polls the link, and when its spin budget is spent it sleeps on it. The
// others, followers, sleep on what they wait for; whoever completes it wakes
// them. A leader that leaves hands over to a follower. So no thread sleeps on
// the socket while another one spins, which would make every frame pay for
// waking it, and no message changes goroutines when only one waits.

// gate is what goroutines wait at: one for each queue, CQ, listener and so on.
// Opening it wakes all of them to look again.
type gate struct {
	blocked *blocker
	opened  uint32 // times, so that a wait notices what its own poll has done
}

// blocker is a follower's place to sleep. The NIC keeps them for reuse.
type blocker struct {
	ch    chan struct{} // capacity 1
	next  *blocker      // at the same gate, or in the free list
	until int64         // the leader wakes it then
}

// leadership says who drives the engine.
type leadership struct {
	taken     bool
	sleeping  bool  // somebody is inside link.Wait
	sleepGate *gate // what the sleeper waits for
	until     int64 // when the sleeper wakes by itself
	free      *blocker
	followers []*blocker
	lastPoll  int64 // when a caller, not the service, polled last
	byService bool  // the sleeper is the service goroutine
	kicked    bool  // and has been asked to leave
}

// waiter is one call's waiting; it lives on the caller's stack.
type waiter struct {
	ctx       context.Context
	deadline  int64 // in the link's time, 0 for none
	byContext bool  // the deadline is the context's
	leading   bool
	started   int64
	rounds    int
	busy      int         // polls that found frames
	slept     bool        // has blocked
	stop      func() bool // ends the watch over ctx
}

// open wakes whoever waits at g. It is called with n.mu held.
func (g *gate) open(n *NIC) {
	if g.opened++; g.blocked != nil || n.lead.sleeping {
		g.wake(n)
	}
}

func (g *gate) wake(n *NIC) {
	for b := g.blocked; b != nil; b = b.next {
		b.wake()
	}
	if n.lead.sleeping && n.lead.sleepGate == g {
		n.link.Wake()
	}
}

func (b *blocker) wake() {
	select {
	case b.ch <- struct{}{}:
	default:
	}
}

// openAll wakes everybody, because the NIC closes.
func (l *leadership) openAll(n *NIC) {
	for _, b := range l.followers {
		b.wake()
	}
	n.link.Wake()
}

// polled notes that a caller drives the engine, and gets the service out of
// link.Wait.
func (l *leadership) polled(n *NIC) {
	l.lastPoll = n.now
	if l.byService && !l.kicked {
		l.kicked = true
		n.link.Wake()
	}
}

// wakeBefore wakes the sleeper if it would sleep past at.
func (l *leadership) wakeBefore(n *NIC, at int64) {
	if l.sleeping && at < l.until {
		l.until = at
		n.link.Wake()
	}
}

// busyLook is how many polls that find frames a wait makes between looks at
// its deadline.
const busyLook = 16

// wait lets time pass for a caller that has found nothing at g, and returns
// for it to look again. It is called with n.mu held and returns with it held.
// The error, if any, is the end of the wait: time-out or context.
func (n *NIC) wait(w *waiter, g *gate) error {
	opened := g.opened
	busy := n.poll()
	if n.dead != nil && g.opened == opened {
		return fmt.Errorf("vipl: wait: %w: %w", ErrLink, n.dead)
	}
	if w.started == 0 {
		w.started = n.now
	}
	if !busy {
		n.idlePoll()
	}
	if n.calls.due() {
		n.callOut(w)
		busy = false
	}
	if busy { // with frames for others, perhaps; so the time is looked at too
		if w.busy++; w.busy%busyLook != 0 {
			return nil
		}
		return w.expired(n)
	}
	if g.opened != opened { // by a timer, by what the link has taken, or by a handler
		return nil
	}
	if err := w.expired(n); err != nil {
		return err
	}
	l := &n.lead
	if !w.leading && l.taken {
		return n.follow(w, g)
	}
	l.taken, w.leading = true, true
	if n.now-w.started < n.spin.budget(n.now) {
		if n.spinOnce(w) {
			n.poll()
		}
		return nil
	}
	if l.sleeping { // the service has been asked to leave, and signals when it has
		return n.follow(w, g)
	}
	n.sleep(w, g)
	return nil
}

// callOut runs the calls that are due in the midst of a wait. The handlers may
// wait themselves, so somebody else may lead meanwhile.
func (n *NIC) callOut(w *waiter) {
	l := &n.lead
	if w.leading {
		w.leading, l.taken, n.fresh = false, false, false
		if len(l.followers) > 0 {
			l.followers[0].wake()
		}
	}
	n.runCalls()
	n.now = n.link.Now()
}

// expired returns an error when the wait has to end.
func (w *waiter) expired(n *NIC) error {
	if err := n.ended(w.ctx); err != nil {
		return fmt.Errorf("vipl: wait: %w: %w", ErrTimeout, err)
	}
	if w.byContext && n.now >= w.deadline {
		return fmt.Errorf("vipl: wait: %w: %w", ErrTimeout, context.DeadlineExceeded)
	}
	if w.deadline != 0 && n.now >= w.deadline {
		return fmt.Errorf("vipl: wait: %w after %v", ErrTimeout, time.Duration(n.now-w.started).Round(time.Millisecond))
	}
	return nil
}

// nap is how long, in nanoseconds, a leader sleeps at most before it watches
// over its context. The watch allocates and takes two locks; a wait that ends
// sooner, as waits for messages do, goes without, and looks at the context
// when the nap is over.
const nap = 1_000_000

// sleep blocks on the link, as the leader.
func (n *NIC) sleep(w *waiter, g *gate) {
	l := &n.lead
	n.findTimer() // timers.next may be early, and would wake us for nothing
	l.sleeping, l.sleepGate = true, g
	l.until = min(n.timers.next, w.until())
	if w.slept || !w.cancellable(n) {
		w.watch(n)
	} else {
		w.slept = true
		l.until = min(l.until, n.now+nap)
	}
	until := l.until
	n.mu.Unlock()
	err := n.link.Wait(until)
	n.mu.Lock()
	l.sleeping, l.sleepGate = false, nil
	n.bulk.wake()
	if err != nil {
		n.linkError(err)
	}
}

// watch arranges that the end of ctx wakes the sleeper.
func (w *waiter) watch(n *NIC) {
	w.slept = true
	if w.stop == nil && w.cancellable(n) {
		w.stop = context.AfterFunc(w.ctx, n.wakeAll)
	}
}

// cancellable reports whether the end of ctx may end the wait.
func (w *waiter) cancellable(n *NIC) bool { return w.ctx.Done() != nil && !n.info.Virtual }

// wakeAll makes every waiter look again.
func (n *NIC) wakeAll() {
	n.mu.Lock()
	defer n.unlock()
	n.lead.openAll(n)
}

// until returns when w's own time is up, in the link's time.
func (w *waiter) until() int64 {
	if w.deadline != 0 {
		return w.deadline
	}
	return forever
}

// follow blocks at the gate until it opens, leadership falls vacant, or the
// wait's time is up.
func (n *NIC) follow(w *waiter, g *gate) error {
	l := &n.lead
	b := l.free
	if b != nil {
		l.free = b.next
	} else {
		b = &blocker{ch: make(chan struct{}, 1)}
	}
	b.next, g.blocked = g.blocked, b
	l.followers = append(l.followers, b)
	w.watch(n)
	b.until = w.until()
	n.timers.arm(n, b.until)
	n.mu.Unlock()
	<-b.ch
	n.mu.Lock()
	g.remove(b)
	l.remove(b)
	b.next, l.free = l.free, b
	return nil
}

func (g *gate) remove(b *blocker) {
	for p := &g.blocked; *p != nil; p = &(*p).next {
		if *p == b {
			*p = b.next
			return
		}
	}
}

func (l *leadership) remove(b *blocker) {
	for i, f := range l.followers {
		if f == b {
			last := len(l.followers) - 1
			l.followers[i] = l.followers[last]
			l.followers[last] = nil
			l.followers = l.followers[:last]
			break
		}
	}
	select {
	case <-b.ch: // woken twice
	default:
	}
}

// endWait leaves the wait: a leader hands over to a follower if there is one.
func (n *NIC) endWait(w *waiter) {
	if w.stop != nil {
		w.stop()
	}
	l := &n.lead
	if w.leading {
		l.taken, n.fresh = false, false
		if w.started != 0 && w.slept {
			n.spin.slept(n.now - w.started)
		}
	}
	if !l.taken && len(l.followers) > 0 { // also when a follower leaves that was meant to take over
		l.followers[0].wake()
	}
}

// wakeLate wakes the followers whose time is up and returns when the next is.
func (l *leadership) wakeLate(now int64) int64 {
	next := int64(forever)
	for _, b := range l.followers {
		if b.until <= now {
			b.wake()
		} else {
			next = min(next, b.until)
		}
	}
	return next
}

package progress

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// ErrTimeout says that a wait's deadline has passed.
var ErrTimeout = errors.New("progress: the time is up")

// EndError says why Engine.Wait has ended a wait: its deadline has passed, its context
// has ended, or the machine has failed. errors.Is finds ErrTimeout in the first two
// cases, and the context's error or what Machine.Failed has returned.
type EndError struct {
	Context error         // that of the context, if it has ended
	Failed  error         // what Machine.Failed returned, or nil
	After   time.Duration // how long the wait took, on the link's clock
}

// Error names the cause.
func (e *EndError) Error() string {
	switch {
	case e.Failed != nil:
		return e.Failed.Error()
	case e.Context != nil:
		return ErrTimeout.Error() + ": " + e.Context.Error()
	}
	return ErrTimeout.Error() + " after " + e.After.Round(time.Millisecond).String()
}

// Unwrap returns the causes.
func (e *EndError) Unwrap() []error {
	if e.Failed != nil {
		return []error{e.Failed}
	}
	if e.Context != nil {
		return []error{ErrTimeout, e.Context}
	}
	return []error{ErrTimeout}
}

// Waiter is the state of one wait of the program. It lives on the caller's stack:
// Engine.Begin makes it, Engine.Wait may be called with it any number of times, and
// Engine.End releases what it uses.
type Waiter struct {
	ctx       context.Context
	deadline  int64 // in the link's time, 0 for none
	byContext bool  // the deadline is the context's
	leading   bool
	slept     bool        // has blocked
	dozed     bool        // has, as the leader, since something has arrived last
	started   int64       // 0 until the first Wait
	stirred   int64       // when something has arrived last, for whomever, or the first Wait
	rounds    int         // calls of spinOnce
	busy      int         // polls in which something had arrived
	watched   bool        // its context is the one that the engine watches
	stop      func() bool // ends the watch over another one
}

// busyLook is how many polls that find something a wait makes before it checks its
// deadline.
const busyLook = 16

// Wait polls or blocks for a caller that has not found what it waits for. It returns nil
// when the caller should look again: because g was opened, or spuriously. It returns an
// *EndError when the wait is over. The lock is held on entry and on return, and released
// in between.
func (e *Engine) Wait(w *Waiter, g *Gate) error { return e.WaitSince(w, g, g.opened) }

// WaitSince is Wait for a caller that read opened from Gate.Opened before it looked: it
// returns at once if g has been opened since.
func (e *Engine) WaitSince(w *Waiter, g *Gate, opened uint32) error {
	arrived := e.Poll()
	if g.opened == opened {
		if err := e.machine.Failed(); err != nil {
			return &EndError{Failed: err, After: time.Duration(e.now - w.started)}
		}
	}
	if w.started == 0 {
		w.started, w.stirred = e.now, e.now
	}
	if arrived {
		w.stir(e)
	} else {
		e.machine.Idle()
	}
	if e.calls.due() {
		e.callOut(w)
		arrived = false
	}
	if arrived { // perhaps for other waits, so the deadline is checked now and then
		if w.busy++; w.busy%busyLook != 0 {
			return nil
		}
		return w.expired(e)
	}
	if g.opened != opened { // by a timer, by what the link has taken, or by a call
		return nil
	}
	if err := w.expired(e); err != nil {
		return err
	}
	l := &e.lead
	if !w.leading && l.taken {
		e.follow(w, g, false)
		return nil
	}
	l.taken, w.leading = true, true
	if l.woke && !e.virtual {
		e.letRun()
		return nil
	}
	if e.now-w.stirred < e.spin.budget(e.now) {
		if e.spinOnce(w) && e.Poll() {
			w.stir(e)
		}
		return nil
	}
	if l.sleeping { // the service was asked to leave; it wakes the followers when it has left
		e.follow(w, g, false)
		return nil
	}
	e.sleep(w, g)
	return nil
}

// stir notes that something has arrived, or that the wait ends. If it has slept before, how long
// nothing has come says whether it should have polled: also in a long wait, in which others read
// this host's memory, or the messages are for other waits.
func (w *Waiter) stir(e *Engine) {
	if w.dozed {
		w.dozed = false
		e.spin.slept(e.now - w.stirred)
	}
	w.stirred = e.now
}

// letRun has the goroutines run that the leader has woken. They are in the queue of its own
// processor, which it is about to keep busy, or to take into a system call: there they would
// wait until another thread has been woken and has stolen them.
func (e *Engine) letRun() {
	e.lead.woke = false
	e.mu.Unlock()
	e.yield()
	e.mu.Lock()
}

// callOut runs the calls that are due during a wait. The functions called may wait
// themselves, so the caller gives up the lead before.
func (e *Engine) callOut(w *Waiter) {
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		e.lead.next()
	}
	e.runCalls()
	e.now = e.link.Now()
}

// nap is the longest first sleep of a leader, in nanoseconds. It watches its context only
// from then on, because to watch a context allocates and takes two locks, which a wait
// that ends sooner, as waits for messages usually do, need not pay for.
const nap = 1_000_000

// sleep blocks on the link, as the leader.
func (e *Engine) sleep(w *Waiter, g *Gate) {
	l := &e.lead
	until := min(e.machine.NextTimer(), l.due, w.until())
	if w.slept || !w.cancellable(e) {
		e.watch(w)
	} else {
		w.slept = true
		until = min(until, e.now+nap)
	}
	w.dozed = true
	e.sleepAt(g, until)
}

// sleepAt blocks on the link until the given time at most, for a wait at g. A nil g means
// that the service goroutine sleeps.
func (e *Engine) sleepAt(g *Gate, until int64) {
	l := &e.lead
	l.sleeping, l.sleepsAt, l.until = true, g, until
	e.mu.Unlock()
	err := e.link.Wait(until)
	e.mu.Lock()
	l.sleeping, l.sleepsAt = false, nil
	e.machine.Woke(err)
}

// End ends the wait of w. If its goroutine was the leader, End wakes the next leader. The
// lock is held.
func (e *Engine) End(w *Waiter) {
	e.unwatch(w)
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		if w.started != 0 {
			w.stir(e)
		}
	}
	e.lead.next() // also for a follower, which may have been woken to be the next leader
}

// expired returns an error if the wait's context has ended or its deadline has passed.
func (w *Waiter) expired(e *Engine) error {
	if err := e.Ended(w.ctx); err != nil {
		return &EndError{Context: err, After: time.Duration(e.now - w.started)}
	}
	if w.deadline == 0 || e.now < w.deadline {
		return nil
	}
	end := &EndError{After: time.Duration(e.now - w.started)}
	if w.byContext {
		end.Context = context.DeadlineExceeded
	}
	return end
}

// cancellable reports whether the end of the context may end the wait.
func (w *Waiter) cancellable(e *Engine) bool { return w.ctx.Done() != nil && !e.virtual }

// until returns the wait's deadline on the link's clock, or transport.Forever.
func (w *Waiter) until() int64 {
	if w.deadline != 0 {
		return w.deadline
	}
	return transport.Forever
}

package progress

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// ErrTimeout is what a wait returns whose time is up.
var ErrTimeout = errors.New("progress: the time is up")

// EndError is why Engine.Wait has ended a wait: the time is up, the context has ended, or
// the machine has failed. errors.Is finds ErrTimeout for the first two, the context's
// error, and what Machine.Failed has returned.
type EndError struct {
	Context error         // that of the context, if it has ended
	Failed  error         // what Machine.Failed returned, or nil
	After   time.Duration // how long the wait took, on the link's clock
}

// Error says which.
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

// Waiter is one call's waiting. It lives on the caller's stack: Engine.Begin makes it,
// Wait uses it as often as need be, End gives back what it has.
type Waiter struct {
	ctx       context.Context
	deadline  int64 // in the link's time, 0 for none
	byContext bool  // the deadline is the context's
	leading   bool
	slept     bool        // has blocked
	started   int64       // 0 until the first Wait
	rounds    int         // of spinning
	busy      int         // polls in which something had arrived
	stop      func() bool // ends the watch over ctx
}

// busyLook is how many polls in which something arrives a wait makes between looks at
// its deadline.
const busyLook = 16

// Wait lets time pass for a caller that has found nothing at g, and returns for it to
// look again: when g was opened, or for no reason. The lock is held on entry and on
// return, and released in between. The error, an *EndError, ends the wait.
func (e *Engine) Wait(w *Waiter, g *Gate) error { return e.WaitSince(w, g, g.opened) }

// WaitSince is Wait for a caller who has looked when g had been opened so many times.
func (e *Engine) WaitSince(w *Waiter, g *Gate, opened uint32) error {
	arrived := e.Poll()
	if g.opened == opened {
		if err := e.machine.Failed(); err != nil {
			return &EndError{Failed: err, After: time.Duration(e.now - w.started)}
		}
	}
	if w.started == 0 {
		w.started = e.now
	}
	if !arrived {
		e.machine.Idle()
	}
	if e.calls.due() {
		e.callOut(w)
		arrived = false
	}
	if arrived { // for others, perhaps; so the time is looked at too
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
	if e.now-w.started < e.spin.budget(e.now) {
		if e.spinOnce(w) {
			e.Poll()
		}
		return nil
	}
	if l.sleeping { // the service has been asked to leave, and wakes followers when it has
		e.follow(w, g, false)
		return nil
	}
	e.sleep(w, g)
	return nil
}

// callOut runs the calls that are due in the midst of a wait. The functions called may
// wait themselves, so somebody else may lead meanwhile.
func (e *Engine) callOut(w *Waiter) {
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		e.lead.next()
	}
	e.runCalls()
	e.now = e.link.Now()
}

// nap is how long, in nanoseconds, a leader sleeps at most before it watches over its
// context. The watch allocates and takes two locks; a wait that ends sooner, as waits
// for messages do, goes without, and looks at the context when the nap is over.
const nap = 1_000_000

// sleep blocks on the link, as the leader.
func (e *Engine) sleep(w *Waiter, g *Gate) {
	l := &e.lead
	until := min(e.machine.NextTimer(), l.due, w.until())
	if w.slept || !w.cancellable(e) {
		w.watch(e)
	} else {
		w.slept = true
		until = min(until, e.now+nap)
	}
	e.sleepAt(g, until)
}

// sleepAt blocks on the link until the given time at most, on behalf of who waits at g.
func (e *Engine) sleepAt(g *Gate, until int64) {
	l := &e.lead
	l.sleeping, l.sleepsAt, l.until = true, g, until
	e.mu.Unlock()
	err := e.link.Wait(until)
	e.mu.Lock()
	l.sleeping, l.sleepsAt = false, nil
	e.machine.Woke(err)
}

// End leaves the wait: a leader hands over to the next, if there is one. The lock is
// held.
func (e *Engine) End(w *Waiter) {
	if w.stop != nil {
		w.stop()
	}
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		if w.started != 0 && w.slept {
			e.spin.slept(e.now - w.started)
		}
	}
	e.lead.next() // also when a follower leaves that was meant to take over
}

// expired returns an error when the wait has to end.
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

// watch arranges that the end of the context wakes everybody.
func (w *Waiter) watch(e *Engine) {
	w.slept = true
	if w.stop == nil && w.cancellable(e) {
		w.stop = context.AfterFunc(w.ctx, func() {
			e.Lock()
			defer e.Unlock()
			e.WakeAll()
		})
	}
}

// cancellable reports whether the end of the context may end the wait.
func (w *Waiter) cancellable(e *Engine) bool { return w.ctx.Done() != nil && !e.virtual }

// until returns when w's own time is up, in the link's time.
func (w *Waiter) until() int64 {
	if w.deadline != 0 {
		return w.deadline
	}
	return transport.Forever
}

package progress

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// ErrTimeout reports that the deadline of a wait has passed.
var ErrTimeout = errors.New("progress: deadline exceeded")

// EndError reports why Engine.Wait has ended a wait: its deadline has passed, its context has
// ended, or the machine has failed. errors.Is finds ErrTimeout in the first two cases, and
// the context's error or the result of Machine.Failed.
type EndError struct {
	Context error         // error of the context, if it has ended
	Failed  error         // result of Machine.Failed, or nil
	After   time.Duration // duration of the wait on the link's clock
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

// Waiter is the state of one wait of the program, on the caller's stack. Engine.Begin creates it,
// Engine.Wait may be called with it repeatedly, and Engine.End releases its resources.
type Waiter struct {
	ctx       context.Context
	deadline  int64 // on the link's clock, 0 for none
	byContext bool  // the deadline is the context's
	leading   bool
	slept     bool        // it has blocked
	dozed     bool        // it has blocked as the leader since the last arrival
	started   int64       // 0 before the first Wait
	stirred   int64       // time of the last arrival, for any wait, or of the first Wait
	rounds    int         // calls of spinOnce
	busy      int         // polls that found something
	watched   bool        // the engine watches its context
	stop      func() bool // ends the watch if the engine watches another context
}

// busyLook is after how many polls that found something a wait checks its deadline.
const busyLook = 16

// Wait polls or blocks until the caller should check its condition again, because g was opened or
// spuriously; it then returns nil. If the wait has ended, it returns an *EndError. The caller holds
// the lock, and holds it again on return; Wait releases it in between.
func (e *Engine) Wait(w *Waiter, g *Gate) error { return e.WaitSince(w, g, g.opened) }

// WaitSince is Wait for a caller that called Gate.Opened before it checked its condition. It
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
	switch {
	case arrived:
		w.stir(e)
	case g.opened == opened: // else the caller looks again, and may be about to answer
		e.machine.Idle()
	}
	if e.calls.due() {
		e.callOut(w)
		arrived = false
	}
	if arrived { // perhaps for other waits, so the deadline must be checked from time to time
		if w.busy++; w.busy%busyLook != 0 {
			return nil
		}
		return w.expired(e)
	}
	if g.opened != opened { // by a timer, by frames that the link accepted, or by a call
		return nil
	}
	if err := w.expired(e); err != nil {
		return err
	}
	l := &e.lead
	if !w.leading && l.taken {
		if !e.lookElsewhere(true) { // the leader may sleep already
			e.follow(w, g, false)
		}
		return nil
	}
	l.taken, w.leading = true, true
	if l.woke && !e.virtual {
		e.letRun()
		return nil
	}
	if e.now-w.stirred < e.spin.budget(e.now) {
		if e.spinOnce(w) && (e.lookElsewhere(false) || e.Poll()) {
			w.stir(e)
		}
		return nil
	}
	if e.lookElsewhere(true) {
		w.stir(e)
		return nil
	}
	if l.sleeping { // the service is about to leave, and then wakes the followers
		e.follow(w, g, false)
		return nil
	}
	e.sleep(w, g)
	return nil
}

// stir records that something has arrived, or that the wait ends, and adjusts the spin budget: if
// the wait slept for less time than spinning would have covered, spinning would have paid. This
// also holds in a long wait whose arrivals are RDMA operations, or messages for other waits.
func (w *Waiter) stir(e *Engine) {
	if w.dozed {
		w.dozed = false
		e.spin.slept(e.now - w.stirred)
	}
	w.stirred = e.now
}

// letRun yields to the goroutines that the leader has woken. They are in the run queue of its own
// processor. If the leader kept the processor busy or entered a system call, they would wait until
// another thread wakes and steals them.
func (e *Engine) letRun() {
	e.lead.woke = false
	e.mu.Unlock()
	e.yield()
	e.mu.Lock()
}

// callOut runs the calls that are due during a wait. They may wait themselves, so the goroutine
// first gives up the lead.
func (e *Engine) callOut(w *Waiter) {
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		e.lead.next()
	}
	e.runCalls()
	e.now = e.link.Now()
}

// nap is the maximum first sleep of a leader, in nanoseconds. The leader watches its context only
// after it: watching allocates and takes two locks, which a short wait need not pay for.
const nap = 1_000_000

// sleep blocks on the link as the leader.
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

// sleepAt blocks on the link until the given time at most, for a wait at g. A nil g means that the
// service sleeps.
func (e *Engine) sleepAt(g *Gate, until int64) {
	l := &e.lead
	l.sleeping, l.sleepsAt, l.until = true, g, until
	e.mu.Unlock()
	err := e.link.Wait(until)
	e.mu.Lock()
	l.sleeping, l.sleepsAt = false, nil
	e.machine.Woke(err)
}

// End finishes the wait. If the calling goroutine was the leader, End hands leadership to another
// waiter. The caller must hold the lock.
func (e *Engine) End(w *Waiter) {
	e.unwatch(w)
	if w.leading {
		w.leading, e.lead.taken, e.fresh = false, false, false
		if w.started != 0 {
			w.stir(e)
		}
	}
	e.lead.next() // also for a follower, which may have been woken to become the leader
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

// cancellable reports whether the end of the context can end the wait.
func (w *Waiter) cancellable(e *Engine) bool { return w.ctx.Done() != nil && !e.virtual }

// until returns the wait's deadline on the link's clock, or transport.Forever.
func (w *Waiter) until() int64 {
	if w.deadline != 0 {
		return w.deadline
	}
	return transport.Forever
}

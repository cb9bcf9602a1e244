package progress

import (
	"context"
	"time"
)

// The deadline of a context is a time of the host's clock. A simulated link has its own clock, for
// which that time means nothing: a wait with such a deadline would end after a different number of
// events in each run. In virtual time only deadlines made by WithTimeout therefore apply.

type deadlineKey struct{}

// WithTimeout returns a copy of ctx that ends when d has passed on the link's clock, or when cancel
// is called. On a real link it is context.WithTimeout. On a simulated link d is virtual time: waits
// with this context end after d, although the context itself does not. Deadlines made by other
// means do not end a wait there.
func (e *Engine) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	if !e.virtual {
		return context.WithTimeout(ctx, d)
	}
	at := e.link.Now() + max(int64(d), 1)
	if before := virtualDeadline(ctx); before != 0 {
		at = min(at, before)
	}
	ctx, cancel = context.WithCancel(ctx)
	return context.WithValue(ctx, deadlineKey{}, at), cancel
}

// virtualDeadline returns the time of the link's clock at which ctx ends, 0 for never.
func virtualDeadline(ctx context.Context) int64 {
	at, _ := ctx.Value(deadlineKey{}).(int64)
	return at
}

// Ended returns the context's error if it has ended on the link's clock.
func (e *Engine) Ended(ctx context.Context) error {
	err := ctx.Err()
	if e.virtual && err != context.Canceled {
		return nil
	}
	return err
}

// Begin returns a wait that ends with ctx. The compiler inlines it to avoid copying the wait.
func (e *Engine) Begin(ctx context.Context) (w Waiter) {
	w.ctx = ctx
	if e.virtual {
		w.goByVirtual()
	}
	return w
}

// goByVirtual sets the wait's deadline to that of its context in virtual time.
func (w *Waiter) goByVirtual() {
	w.deadline = virtualDeadline(w.ctx)
	w.byContext = w.deadline != 0
}

// BeginFor returns a wait that ends with ctx, or after d if ctx has no deadline.
func (e *Engine) BeginFor(ctx context.Context, d time.Duration) Waiter {
	w := e.Begin(ctx)
	if _, ok := ctx.Deadline(); w.deadline == 0 && (!ok || e.virtual) {
		w.deadline = e.link.Now() + int64(d)
	}
	return w
}

// Until replaces the wait's deadline by the given time of the link's clock.
func (w *Waiter) Until(at int64) { w.deadline, w.byContext = at, false }

// Limit makes the wait end after d at the latest, and reports whether that is before its previous
// deadline. If it is, and the wait ends by it, the error has no Context.
func (e *Engine) Limit(w *Waiter, d time.Duration) bool {
	at := e.link.Now() + int64(d)
	if w.deadline != 0 && w.deadline <= at {
		return false
	}
	w.Until(at)
	return true
}

// Left returns the time until the deadline of ctx on the link's clock, or d if ctx has
// none.
func (e *Engine) Left(ctx context.Context, d time.Duration) time.Duration {
	if e.virtual {
		if at := virtualDeadline(ctx); at != 0 {
			return time.Duration(at - e.link.Now())
		}
		return d
	}
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return d
}

package progress

import (
	"context"
	"time"
)

// A context's deadline is a time of the host's clock. A simulated link has a clock of
// its own, on which that time means nothing: such a deadline would end a wait after a
// different number of events in every run. So under virtual time only the deadlines that
// WithTimeout has made count.

type deadlineKey struct{}

// WithTimeout returns a copy of ctx that ends when d has passed on the link's clock, or
// when cancel is called. On a real link it is context.WithTimeout. On a simulated one d
// is virtual time, which waits go by although the context itself never ends by it;
// deadlines made by other means do not end a wait there.
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

// virtualDeadline returns the link's time at which ctx ends; 0 for never.
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

// Begin returns a wait that ends with ctx. The compiler inlines it, so that the wait is
// not copied.
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

// Until sets the wait's deadline to the given time of the link's clock. It replaces the
// context's.
func (w *Waiter) Until(at int64) { w.deadline, w.byContext = at, false }

// Limit makes the wait end no later than after d, and reports whether that is earlier
// than its deadline was. If it is, the error of a wait that ends by it has no Context.
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

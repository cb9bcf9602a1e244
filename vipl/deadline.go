package vipl

import (
	"context"
	"time"
)

// A context's deadline is a time of the host's clock. A simulated link has a
// clock of its own, on which that time means nothing: such a deadline would end
// a wait after a different number of events in every run. So under virtual time
// only deadlines count that WithTimeout has made.

type deadlineKey struct{}

// WithTimeout returns a copy of ctx that ends when d has passed on the NIC's
// clock, or when cancel is called. On a real link it is context.WithTimeout. On
// a simulated one d is virtual time, which the waits of this package go by
// although the context itself never ends by it; deadlines made by other means
// do not end a wait there.
func (n *NIC) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	if !n.info.Virtual {
		return context.WithTimeout(ctx, d)
	}
	at := n.link.Now() + max(int64(d), 1)
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

// ended returns the context's error if it has ended on the NIC's clock.
func (n *NIC) ended(ctx context.Context) error {
	err := ctx.Err()
	if n.info.Virtual && err != context.Canceled {
		return nil
	}
	return err
}

// waiter returns a wait that ends with ctx.
func (n *NIC) waiter(ctx context.Context) waiter {
	w := waiter{ctx: ctx}
	if n.info.Virtual {
		w.deadline = virtualDeadline(ctx)
		w.byContext = w.deadline != 0
	}
	return w
}

// timeLeft returns how long an attempt may take: until ctx ends, or else d.
func (n *NIC) timeLeft(ctx context.Context, d time.Duration) time.Duration {
	if n.info.Virtual {
		if at := virtualDeadline(ctx); at != 0 {
			return time.Duration(at - n.link.Now())
		}
		return d
	}
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return d
}

// withTimeout returns a wait that ends with ctx, or after d if ctx has no
// deadline.
func withTimeout(ctx context.Context, n *NIC, d time.Duration) waiter {
	w := n.waiter(ctx)
	if _, ok := ctx.Deadline(); w.deadline == 0 && (!ok || n.info.Virtual) {
		w.deadline = n.link.Now() + int64(d)
	}
	return w
}

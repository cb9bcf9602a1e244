package vipl

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
)

// endWait ends a wait and releases the lock. It is deferred, because a wait may run calls of
// the program, which may panic.
func (n *NIC) endWait(w *progress.Waiter) {
	n.eng.End(w)
	n.eng.Unlock()
}

// WithTimeout returns a copy of ctx that ends when d has passed on the NIC's
// clock, or when cancel is called. On a real link it is context.WithTimeout. On
// a simulated one d is virtual time, which the waits of this package go by
// although the context itself never ends by it; deadlines made by other means
// do not end a wait there.
func (n *NIC) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	return n.eng.WithTimeout(ctx, d)
}

// forever is the deadline of a timer that is not set.
const forever = transport.Forever

package vipl

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
)

// endWait ends a wait and releases the lock. Callers defer it, because a wait may call functions of
// the program, which may panic.
func (n *NIC) endWait(w *progress.Waiter) {
	n.eng.End(w)
	n.eng.Unlock()
}

// WithTimeout returns a copy of ctx that ends when d has passed on the NIC's clock, or when cancel
// is called. On a real link it is context.WithTimeout. On a simulated link d is virtual time: the
// waits of this package honour it, although the context itself never expires. Other deadlines do
// not end a wait on a simulated link.
func (n *NIC) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	return n.eng.WithTimeout(ctx, d)
}

// forever is the deadline of an unset timer.
const forever = transport.Forever

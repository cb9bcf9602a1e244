package vipl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/transport"
)

// wait lets time pass for a caller that has found nothing at g, and returns for it to
// look again, or an error that ends the wait. The engine's lock is held.
func (n *NIC) wait(w *progress.Waiter, g *progress.Gate) error {
	if err := n.eng.Wait(w, g); err != nil {
		return waitError(err)
	}
	return nil
}

// endWait ends a wait and releases the lock. It is deferred, because a wait may run calls of
// the program, which may panic.
func (n *NIC) endWait(w *progress.Waiter) {
	n.eng.End(w)
	n.eng.Unlock()
}

// waitError says in the words of this package why a wait has ended.
func waitError(err error) error {
	var end *progress.EndError
	errors.As(err, &end)
	switch {
	case end.Failed != nil:
		return fmt.Errorf("vipl: wait: %w: %w", ErrLink, end.Failed)
	case end.Context != nil:
		return fmt.Errorf("vipl: wait: %w: %w", ErrTimeout, end.Context)
	}
	return fmt.Errorf("vipl: wait: %w after %v", ErrTimeout, end.After.Round(time.Millisecond))
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

package vrpc

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pending is the calls of one connection or socket that wait for their replies.
type pending struct {
	mu    sync.Mutex
	calls map[uint32]*Exchange
	err   error // why there will be no more
}

func newPending() *pending { return &pending{calls: make(map[uint32]*Exchange)} }

// add begins to wait for the reply to x.
func (p *pending) add(x *Exchange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.calls[x.XID] = x
	return nil
}

// remove ends the wait. If it returns false, what x waited for has come: it is in x.done.
func (p *pending) remove(x *Exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[x.XID] != x {
		return false
	}
	delete(p.calls, x.XID)
	return true
}

// take ends the wait of the call with this transaction id, if there is one: the caller
// sets its Reply and sends nil to done.
func (p *pending) take(xid uint32) *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.calls[xid]
	delete(p.calls, xid)
	return x
}

// fail ends the wait of all calls, and of further ones if last is set.
func (p *pending) fail(err error, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last && p.err == nil {
		p.err = err
	}
	for xid, x := range p.calls {
		delete(p.calls, xid)
		x.done <- err
	}
}

// await waits until x is done, ctx ends, or for d, which is ErrTimeout; negative is for ever.
// It reports whether x is done: then the error is the call's, and nothing follows.
func (x *Exchange) await(ctx context.Context, d time.Duration) (done bool, err error) {
	var expired <-chan time.Time
	if d >= 0 {
		x.timer.Reset(d)
		defer x.timer.Stop()
		expired = x.timer.C
	}
	select {
	case err := <-x.done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-expired:
		return false, ErrTimeout
	}
}

// left returns how long x may wait, negative for ever.
func (x *Exchange) left() time.Duration {
	if x.Deadline.IsZero() {
		return -1
	}
	return max(0, time.Until(x.Deadline))
}

// outcome is what becomes of x, which was not done, after err: what has come meanwhile counts.
func (p *pending) outcome(x *Exchange, err error) error {
	if p.remove(x) {
		return err
	}
	return <-x.done
}

// errEnded says that a connection has ended before the right to write was free.
var errEnded = errors.New("vrpc: the connection has ended")

// claim puts a token into writing, which has room for that of one writer. It waits as long
// as the exchange may take, and fails with errEnded when ended is closed.
func (x *Exchange) claim(ctx context.Context, writing chan<- struct{}, ended <-chan struct{}) error {
	select {
	case writing <- struct{}{}:
		return nil
	default:
	}
	var expired <-chan time.Time
	if left := x.left(); left >= 0 {
		x.timer.Reset(left)
		defer x.timer.Stop()
		expired = x.timer.C
	}
	select {
	case writing <- struct{}{}:
		return nil
	case <-ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-expired:
		return ErrTimeout
	}
}

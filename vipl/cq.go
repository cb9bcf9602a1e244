package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// CQ is a completion queue. It collects the completions of many work queues, so that one goroutine
// can serve many VIs. It may be shared between goroutines.
//
// An entry names a VI, and states which of the VI's queues has a completion. Take the descriptor
// with SendDone or RecvDone (VIPL reference, section 9). A CQ has a fixed number of entries. If
// it is full, it loses further entries: the descriptors stay on their work queues,
// NICStats.CQOverruns counts the lost entries, and the error handler gets CodeVIOverrun. A CQ
// with as many entries as the queues of its VIs have descriptors never overflows.
//
// Listener.Bind binds a listener to the queue, so that one wait covers completions and connection
// requests.
type CQ struct {
	nic      *NIC
	ring     conn.Ring
	users    int // work queues bound to it
	closed   bool
	handlers entryHandlers
	attend   func() // see seam.Queue
}

// CreateCQ makes a completion queue (VipCreateCQ) of at least one entry. A NIC
// has at most NICAttributes.MaxCQ.
func (n *NIC) CreateCQ(entries int) (*CQ, error) {
	if entries < 1 || entries > MaxCQEntries {
		return nil, opError("create completion queue", ErrArgument, "%d entries are not in 1..%d", entries, MaxCQEntries)
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	switch {
	case n.m.Closed:
		return nil, ErrClosed
	case n.numCQs >= maxCQs:
		return nil, opError("create completion queue", ErrResource, "all %d completion queues are in use; close some", maxCQs)
	}
	n.numCQs++
	q := &CQ{nic: n}
	q.ring.Init(&n.m.Shared, (*cqOwner)(q), entries)
	return q, nil
}

// ringOf returns the ring of a queue, nil if there is none.
func ringOf(q *CQ) *conn.Ring {
	if q == nil {
		return nil
	}
	return &q.ring
}

// nextEntry removes and returns the next entry. v is nil for an entry of a listener.
func (q *CQ) nextEntry() (v *VI, recv bool, ok bool) {
	e, ok := q.ring.Next()
	if e.Conn != nil {
		v = viOf(e.Conn)
	}
	return v, e.Recv, ok
}

// Done takes the next entry (VipCQDone). It never blocks. It polls the NIC once if necessary, and
// returns ErrNotDone if there is no entry. vi is nil for an entry of a listener that is bound to
// the queue.
func (q *CQ) Done() (vi *VI, recv bool, err error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	for polled := false; ; polled = true {
		if v, recv, ok := q.nextEntry(); ok {
			return v, recv, nil
		}
		if err := q.isClosed(); err != nil {
			return nil, false, err
		}
		if polled {
			n.m.Uncork()
			return nil, false, ErrNotDone
		}
		n.eng.Poll()
	}
}

// Wait takes the next entry (VipCQWait). It blocks until there is one or ctx ends. If ctx ends, the
// error is both ErrTimeout and the context's error. vi is nil for an entry of a listener that is
// bound to the queue.
func (q *CQ) Wait(ctx context.Context) (vi *VI, recv bool, err error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if v, recv, ok := q.nextEntry(); ok {
			return v, recv, nil
		}
		if err := q.isClosed(); err != nil {
			return nil, false, err
		}
		if err := n.m.Wait(&w, &q.ring.Gate); err != nil {
			return nil, false, err
		}
	}
}

// Close destroys the queue (VipDestroyCQ). Calls that wait return ErrClosed, and waiting handlers
// are cancelled. It fails with ErrResource while a VI or a listener is bound to the queue. Closing
// twice does nothing.
func (q *CQ) Close() error {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if q.users+q.ring.Bound() > 0 && !n.m.Closed {
		return opError("destroy completion queue", ErrResource,
			"%d work queues and %d listeners are still bound to it; close the VIs and the listeners first", q.users, q.ring.Bound())
	}
	if !q.closed {
		n.numCQs--
	}
	q.closed, q.attend = true, nil
	q.ring.Attend(false)
	q.handlers.Clear()
	q.ring.Handlers = 0
	n.cancelCalls(nil, q)
	q.ring.Gate.Open(&n.eng)
	return nil
}

// cqOwner is the queue as its ring accesses it.
type cqOwner CQ

// Tell implements conn.RingOwner: it gives an entry to the handler that has waited longest.
func (o *cqOwner) Tell(c *conn.Conn, recv bool) {
	q := (*CQ)(o)
	var v *VI
	if c != nil {
		v = viOf(c)
	}
	q.tell(v, recv)
}

// Overrun implements conn.RingOwner.
func (o *cqOwner) Overrun(c *conn.Conn) { o.nic.raiseCQ((*CQ)(o), viOf(c)) }

// Alert implements conn.RingOwner.
func (o *cqOwner) Alert() { o.nic.calls.Owe(call{ring: o.attend, q: (*CQ)(o)}) }

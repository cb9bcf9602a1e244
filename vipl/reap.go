package vipl

import (
	"context"
	"errors"
	"time"
)

// Completion is an entry of a completion queue together with the descriptor
// that it stands for. Err is ErrDescriptor when the descriptor completed in
// error, and nil otherwise. An entry of a listener that is bound to the queue
// has a Request and nothing else.
type Completion struct {
	VI         *VI
	Recv       bool // of the receive queue
	Descriptor *Descriptor
	Err        error
	Request    *Request
}

// ReapWait takes entries with their descriptors, as many as there are and out
// has room for, and returns how many. It blocks until there is one or ctx ends,
// which returns an error that is both ErrTimeout and the context's.
//
// VIPL takes an entry by one call and its descriptor by another; for a server
// of many VIs this takes a batch of both by one.
func (q *CQ) ReapWait(ctx context.Context, out []Completion) (int, error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if k := q.reap(out); k > 0 || len(out) == 0 {
			return k, nil
		}
		if err := q.isClosed(); err != nil {
			return 0, err
		}
		if err := n.m.Wait(&w, &q.ring.Gate); err != nil {
			return 0, err
		}
	}
}

// Goroutines that share what completions change, under a lock of their own, wait by
// these three, so that any of them may take the completions, in order, and all look
// again afterwards:
//
//	mu.Lock()
//	for !done() {
//		looked := seen
//		mu.Unlock()
//		err := q.WaitSince(ctx, 0, looked)
//		mu.Lock()
//		n, seen = q.Reap(out)
//		handle(out[:n])
//	}
//
// with seen and out guarded by mu. Whoever else makes done true calls Wake. The end of an
// attempt to connect a VI whose receive queue is bound to the queue has them look again, too:
// who makes many connections at once needs no other place to wait.

// Reap takes what there is, as ReapDone does, without polling the NIC. Seen is for
// WaitSince.
func (q *CQ) Reap(out []Completion) (n int, seen uint32) {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	n = q.reap(out)
	if seen = q.ring.Gate.Opened(); !q.ring.Empty() { // what is left has not been seen, even if somebody else takes it
		seen--
	}
	return n, seen
}

// WaitSince blocks until an entry has come that the Reap which returned seen did not take,
// or somebody has called Wake since. It may return for no reason. It returns
// ErrNotDone when d has passed, unless d is 0, and when ctx ends an error that is both
// ErrTimeout and the context's. It does not allocate, as a context with a deadline
// would.
func (q *CQ) WaitSince(ctx context.Context, d time.Duration, seen uint32) error {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	limited := false
	for q.ring.Gate.Opened() == seen {
		if err := q.isClosed(); err != nil {
			return err
		}
		if d > 0 {
			limited, d = n.eng.Limit(&w, d), 0
		}
		if err := n.m.Wait(&w, &q.ring.Gate); err != nil {
			if limited && errors.Is(err, ErrTimeout) && n.eng.Ended(ctx) == nil {
				err = ErrNotDone
			}
			return err
		}
	}
	return nil
}

// Wake has all that wait at the queue look again.
func (q *CQ) Wake() {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	q.ring.Gate.Open(&q.nic.eng)
}

// ReapDone is ReapWait without blocking: it polls the NIC once if need be and
// returns ErrNotDone when there is nothing.
func (q *CQ) ReapDone(out []Completion) (int, error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	for polled := false; ; polled = true {
		if k := q.reap(out); k > 0 {
			return k, nil
		}
		if err := q.isClosed(); err != nil {
			return 0, err
		}
		if polled {
			n.m.Conns.Uncork()
			return 0, ErrNotDone
		}
		n.eng.Poll()
	}
}

// reap passes over entries whose descriptors somebody has taken by a Done call.
func (q *CQ) reap(out []Completion) (k int) {
	q.ring.Looked()
	for k < len(out) {
		e, ok := q.ring.Next()
		if !ok {
			break
		}
		if e.Notice != nil {
			if r, err := e.Notice.Owner.(*Listener).take(); err == nil {
				out[k] = Completion{Request: r}
				k++
			}
			continue
		}
		d := e.Conn.Queue(e.Recv).Take()
		if d == nil {
			continue
		}
		out[k] = Completion{VI: viOf(e.Conn), Recv: e.Recv, Descriptor: d}
		if d.Status.Failed() {
			out[k].Err = ErrDescriptor
		}
		k++
	}
	if !q.ring.Empty() {
		q.ring.Alert()
	}
	return k
}

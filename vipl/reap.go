package vipl

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam/hook"
)

// queue implements seam.Queue for a CQ. The methods are documented there.
type queue struct{ *CQ }

// completion is seam.Completion.
type completion = hook.Completion[VI, Descriptor, Request]

var _ hook.Queue[completion] = queue{}

// ReapWait implements hook.Queue.
func (q queue) ReapWait(ctx context.Context, out []completion) (int, error) {
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

// Reap implements hook.Queue.
func (q queue) Reap(out []completion) (n int, seen uint32) {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	n = q.reap(out)
	if seen = q.ring.Gate.Opened(); !q.ring.Empty() { // the remaining entries have not been seen, even if another caller takes them
		seen--
	}
	return n, seen
}

// WaitSince implements hook.Queue.
func (q queue) WaitSince(ctx context.Context, d time.Duration, seen uint32) error {
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

// Wake implements hook.Queue.
func (q queue) Wake() {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	q.ring.Gate.Open(&q.nic.eng)
}

// ReapDone implements hook.Queue.
func (q queue) ReapDone(out []completion) (int, error) {
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
			n.m.Uncork()
			return 0, ErrNotDone
		}
		n.eng.Poll()
	}
}

// LookElsewhere implements hook.Queue.
func (q queue) LookElsewhere(look func(sleep bool) bool) bool {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	return q.nic.eng.LookElsewhere(&q.ring.Gate, look)
}

// Attend implements hook.Queue.
func (q queue) Attend(f func()) error {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := q.isClosed(); err != nil {
		return err
	}
	n.cancelCalls(nil, q.CQ)
	q.attend = f
	q.ring.Attend(f != nil)
	return nil
}

// reap skips entries whose descriptors a Done call has already taken.
func (q queue) reap(out []completion) (k int) {
	q.ring.Looked()
	for k < len(out) {
		e, ok := q.ring.Next()
		if !ok {
			break
		}
		if e.Notice != nil {
			if r, err := e.Notice.Owner.(*Listener).nextRequest(); err == nil {
				out[k] = completion{Request: r}
				k++
			}
			continue
		}
		d := dequeue(e.Conn.Queue(e.Recv))
		if d == nil {
			continue
		}
		out[k] = completion{VI: viOf(e.Conn), Recv: e.Recv, Descriptor: d}
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

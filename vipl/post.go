package vipl

import (
	"context"
	"errors"
	"fmt"
)

// PostSend queues a send, an RDMA write or an RDMA read (VipPostSend). It copies
// nothing: the memory that d names must stay unchanged until d completes; that
// of a read is undefined until then.
//
// An error means that d was not queued and stays the caller's: ErrResource
// when the queue is full, ErrInvalidParameter or ErrInvalidPtag for a bad
// segment, with d.Status saying which kind; ErrInvalidRDMARead for a read on the
// unreliable level. A descriptor posted in the Idle or
// Error state is queued and completes flushed at once, as VIA has it.
func (v *VI) PostSend(d *Descriptor) error {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if err := v.postSend(d); err != nil {
		return v.turnDown(d, d.opStatus(), err)
	}
	return nil
}

func (v *VI) postSend(d *Descriptor) error {
	if err := v.admit("post send", d); err != nil {
		return err
	}
	switch {
	case d.Op > OpRDMARead:
		return v.refuse(d, StatusFormatError, opError("post send", ErrInvalidParameter, "operation %d does not exist", d.Op))
	case d.Op == OpRDMARead && !v.reliable:
		return v.refuse(d, StatusFormatError, opError("post send", ErrInvalidRDMARead, "the VI's level is %v", v.attr.Reliability))
	case d.Op == OpRDMARead && d.HasImmediate:
		return v.refuse(d, StatusFormatError, opError("post send", ErrInvalidParameter, "an RDMA read carries no immediate data"))
	}
	if d.total > v.attr.MaxTransferSize {
		return v.refuse(d, StatusLengthError, opError("post send", ErrInvalidParameter, "%d bytes are over the VI's MaxTransferSize of %d", d.total, v.attr.MaxTransferSize))
	}
	if !v.sq.push(d) {
		return v.refuse(d, 0, ErrSendQueueFull)
	}
	d.vi = v
	switch v.state {
	case StateConnectPending: // goes when the connection is made
		v.stats.Sends++
	case StateConnected:
		v.stats.Sends++
		if d.Later {
			v.holdOn()
			v.nic.eng.WakeBefore(v.nic.now) // who sleeps on the link looks after it
			return nil
		}
		v.push()
	case StateIdle, StateError:
		v.cursor.next = v.sq.tail
		v.sq.complete(v, d.opStatus()|StatusFlushed, 0)
	}
	return nil
}

// PostRecv queues a buffer for one message, which may be shorter (VipPostRecv).
// What the buffer holds until d completes, and afterwards beyond d.Length, is
// undefined.
// Errors are as for PostSend. Receives may be posted in any state; in the
// Error state they complete flushed at once.
func (v *VI) PostRecv(d *Descriptor) error {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if err := v.postRecv(d); err != nil {
		return v.turnDown(d, StatusOpReceive, err)
	}
	return nil
}

func (v *VI) postRecv(d *Descriptor) error {
	if err := v.admit("post receive", d); err != nil {
		return err
	}
	d.rxState = rxState{}
	if !v.rq.push(d) {
		return v.refuse(d, 0, ErrRecvQueueFull)
	}
	d.vi = v
	if v.state == StateError {
		v.rq.complete(v, StatusOpReceive|StatusFlushed, 0)
	}
	return nil
}

// What PostSend and PostRecv return when the queue is full; ErrResource both.
// They carry no detail because they are back-pressure, not a fault.
var (
	ErrSendQueueFull = &queueFullError{"vipl: post send: send queue is full"}
	ErrRecvQueueFull = &queueFullError{"vipl: post receive: receive queue is full"}
)

type queueFullError struct{ text string }

func (e *queueFullError) Error() string { return e.text }
func (e *queueFullError) Unwrap() error { return ErrResource }

// admit checks what both queues ask of a descriptor.
func (v *VI) admit(op string, d *Descriptor) error {
	switch {
	case v.closed || v.nic.closed:
		return v.isClosed()
	case d.vi != nil:
		return opError(op, ErrInvalidParameter, "the descriptor is already posted, or was not taken with Done or Wait since")
	case len(d.Segs) > MaxSegments:
		d.Status = StatusFormatError
		return opError(op, ErrInvalidParameter, "%d segments are over the limit of %d", len(d.Segs), MaxSegments)
	}
	d.Status, d.Length = 0, 0
	total, err := v.nic.mem.Check(op, d.Segs, v.attr.Ptag)
	if err != nil {
		d.Status = StatusProtectionError
		return err
	}
	if total > MaxTransferSize {
		return v.refuse(d, StatusLengthError, opError(op, ErrInvalidParameter, "%d bytes are over the limit of %d", total, MaxTransferSize))
	}
	d.total = uint32(total)
	return nil
}

// turnDown tells asynchronously too, as VIPL does, that d was not taken.
func (v *VI) turnDown(d *Descriptor, op Status, err error) error {
	switch {
	case errors.Is(err, ErrClosed):
	case err == ErrSendQueueFull || err == ErrRecvQueueFull:
		v.nic.raise(CodeVIOverrun, v, d, op, err)
	default:
		v.nic.raise(CodePostDesc, v, d, op, err)
	}
	return err
}

// refuse undoes admit.
func (v *VI) refuse(d *Descriptor, status Status, err error) error {
	v.nic.mem.Release(d.Segs)
	d.Status = status
	return err
}

// SendDone takes the oldest send that has completed (VipSendDone). It never
// blocks; it polls the NIC once if need be. ErrNotDone: the oldest is still
// under way. ErrQueueEmpty: nothing is posted. ErrDescriptor: the returned
// descriptor completed in error.
func (v *VI) SendDone() (*Descriptor, error) { return v.doneOf(&v.sq) }

// RecvDone takes the oldest receive that has completed (VipRecvDone), like SendDone.
func (v *VI) RecvDone() (*Descriptor, error) { return v.doneOf(&v.rq) }

// SendWait takes the oldest send, blocking until it has completed
// (VipSendWait) or ctx ends, which returns an error that is both ErrTimeout
// and the context's. Other errors are as for SendDone; on a VI on which Disconnect was
// called they say so.
func (v *VI) SendWait(ctx context.Context) (*Descriptor, error) { return v.waitOf(ctx, &v.sq) }

// RecvWait takes the oldest receive, blocking until it has completed
// (VipRecvWait), like SendWait. On a reliable VI it does not outlive the peer
// by more than Attributes.PeerTimeout.
func (v *VI) RecvWait(ctx context.Context) (*Descriptor, error) { return v.waitOf(ctx, &v.rq) }

func (v *VI) doneOf(q *queue) (*Descriptor, error) {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if q.head == q.done && q.head != q.tail && !n.closed {
		n.eng.Poll()
	}
	d, err := v.takeFrom(q)
	if err == ErrNotDone {
		n.idlePoll()
	}
	return d, err
}

func (v *VI) waitOf(ctx context.Context, q *queue) (*Descriptor, error) {
	n := v.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		d, err := v.takeFrom(q)
		if err == ErrQueueEmpty && v.left {
			return nil, errLeft
		}
		if err != ErrNotDone {
			return d, err
		}
		if err := n.wait(&w, &q.gate); err != nil {
			if v.left && errors.Is(err, ErrTimeout) {
				err = fmt.Errorf("%w: the VI is not connected: Disconnect was called on it", err)
			}
			return nil, err
		}
	}
}

func (v *VI) takeFrom(q *queue) (*Descriptor, error) {
	if d := q.take(); d != nil {
		if d.Status.Failed() {
			return d, ErrDescriptor
		}
		return d, nil
	}
	switch {
	case v.closed || v.nic.closed:
		return nil, v.isClosed()
	case q.head == q.tail:
		return nil, ErrQueueEmpty
	}
	return nil, ErrNotDone
}

// Flush sends what was gathered for a fuller frame. Polling and waiting do so
// too; it is for callers that compute for long after a post.
func (v *VI) Flush() {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if !v.nic.closed {
		v.nic.idlePoll()
	}
}

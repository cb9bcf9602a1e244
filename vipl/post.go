package vipl

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/engine"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// PostSend queues a send, an RDMA write or an RDMA read (VipPostSend). It copies no data: the memory
// of a send or write must stay unchanged until d completes; the memory of a read is undefined until
// then.
//
// If PostSend returns an error, d was not queued and still belongs to the caller. The error is
// ErrResource if the queue is full, and ErrArgument or ErrInvalidPtag for an invalid segment;
// d.Status then contains the kind of error. It is ErrInvalidRDMARead for a read on the
// unreliable level. A descriptor posted in the Idle or Error state is queued and completes
// flushed at once, as VIA requires.
func (v *VI) PostSend(d *Descriptor) error { return v.postSend(d, conn.AtOnce) }

func (v *VI) postSend(d *Descriptor, when conn.When) error {
	op := d.Op // a nil d panics here, without the lock
	v.nic.eng.Lock()
	total, err := v.admit("post send", d)
	if err == nil && (op != OpSend || total > v.attr.MaxTransferSize) {
		err = v.checkSend(d, total)
	}
	if err == nil {
		w := &d.work
		w.Op, w.RDMA = code.Op(op), ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}
		w.Fence, w.Unordered, w.AckNow, w.HasImmediate = d.Fence, d.Unordered, d.AckNow, d.HasImmediate
		if !v.conn.Send(w, total, when) {
			err = v.refuse(d, 0, ErrSendQueueFull)
		}
	}
	if err != nil {
		err = v.turnDown(d, Status(code.OpStatus(code.Op(op))), err)
	}
	v.nic.eng.Unlock()
	return err
}

// checkSend checks the rules of the send queue for a descriptor of total bytes.
func (v *VI) checkSend(d *Descriptor, total uint32) error {
	switch {
	case d.Op > OpRDMARead:
		return v.refuse(d, StatusFormatError, opError("post send", ErrArgument, "invalid operation %d", d.Op))
	case d.Op == OpRDMARead && !v.conn.Reliable:
		return v.refuse(d, StatusFormatError, opError("post send", ErrInvalidRDMARead, "the VI's level is %v", v.attr.Reliability))
	case d.Op == OpRDMARead && d.HasImmediate:
		return v.refuse(d, StatusFormatError, opError("post send", ErrArgument, "an RDMA read carries no immediate data"))
	case total > v.attr.MaxTransferSize:
		return v.refuse(d, StatusLengthError, opError("post send", ErrArgument, "%d bytes are over the VI's MaxTransferSize of %d", total, v.attr.MaxTransferSize))
	}
	return nil
}

// PostRecv queues a buffer for one message, which may be shorter (VipPostRecv). The buffer's
// contents are undefined until d completes, and beyond d.Length afterwards. Errors are as for
// PostSend. Receives may be posted in any state; in the Error state they complete flushed at once.
func (v *VI) PostRecv(d *Descriptor) error {
	_ = d.Op // a nil d panics here, without the lock
	v.nic.eng.Lock()
	total, err := v.admit("post receive", d)
	if err == nil && !v.conn.PostReceive(&d.work, total) {
		err = v.refuse(d, 0, ErrRecvQueueFull)
	}
	if err != nil {
		err = v.turnDown(d, StatusOpReceive, err)
	}
	v.nic.eng.Unlock()
	return err
}

// Errors of PostSend and PostRecv for a full queue; both are ErrResource. They carry no detail
// because they signal backpressure, not a fault.
var (
	ErrSendQueueFull = &queueFullError{"vipl: post send: send queue is full"}
	ErrRecvQueueFull = &queueFullError{"vipl: post receive: receive queue is full"}
)

type queueFullError struct{ text string }

func (e *queueFullError) Error() string { return e.text }
func (e *queueFullError) Unwrap() error { return ErrResource }

// admit checks the rules of both queues for a descriptor, and returns its size in bytes. From then
// on the engine uses its own copy of the descriptor, which names the same segments.
func (v *VI) admit(op string, d *Descriptor) (size uint32, err error) {
	switch {
	case v.conn.Closed || v.nic.m.Closed:
		return 0, v.isClosed()
	case conn.Posted(&d.work):
		return 0, opError(op, ErrArgument, "the descriptor is already posted, or was not taken with Done or Wait since")
	case len(d.Segs) > MaxSegments:
		d.Status = StatusFormatError
		return 0, opError(op, ErrArgument, "%d segments are over the limit of %d", len(d.Segs), MaxSegments)
	}
	d.Status, d.Length = 0, 0
	d.work.SetSegs(engineSegments(d.Segs))
	total, err := v.nic.m.Mem.Check(op, d.work.Segs(), memory.Tag(v.attr.Ptag))
	if err != nil {
		d.Status = StatusProtectionError
		return 0, err
	}
	if total > MaxTransferSize {
		return 0, v.refuse(d, StatusLengthError, opError(op, ErrArgument, "%d bytes are over the limit of %d", total, MaxTransferSize))
	}
	return uint32(total), nil
}

// turnDown reports asynchronously, as VIPL requires, that d was refused, and returns err.
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
	v.nic.m.Mem.Release(d.work.Segs())
	d.Status = status
	return err
}

// SendDone takes the oldest send if it has completed (VipSendDone). It never blocks, and polls the
// NIC once if necessary. It returns ErrNotDone if the oldest send is still in progress, and
// ErrQueueEmpty if nothing is posted. ErrDescriptor means that the returned descriptor completed in
// error.
func (v *VI) SendDone() (*Descriptor, error) { return v.doneOf(&v.conn.SQ) }

// RecvDone takes the oldest receive if it has completed (VipRecvDone). See SendDone.
func (v *VI) RecvDone() (*Descriptor, error) { return v.doneOf(&v.conn.RQ) }

// SendWait takes the oldest send and blocks until it has completed (VipSendWait) or ctx ends. If
// ctx ends, the error is both ErrTimeout and the context's error. Other errors are as for SendDone.
// ErrDescriptor also wraps VI.Err if the connection has ended, and otherwise contains the status.
// After a Disconnect the error mentions the Disconnect.
func (v *VI) SendWait(ctx context.Context) (*Descriptor, error) { return v.waitOf(ctx, &v.conn.SQ) }

// RecvWait takes the oldest receive and blocks until it has completed (VipRecvWait) or ctx
// ends; errors are as for SendWait. If the peer of a reliable VI dies, RecvWait returns
// within Attributes.PeerTimeout, with the reason.
func (v *VI) RecvWait(ctx context.Context) (*Descriptor, error) { return v.waitOf(ctx, &v.conn.RQ) }

func (v *VI) doneOf(q *conn.Queue) (*Descriptor, error) {
	n := v.nic
	n.eng.Lock()
	if q.Waits() && !n.m.Closed {
		n.eng.Poll()
	}
	d, err := v.takeFrom(q)
	if err == ErrNotDone {
		n.m.Uncork()
	}
	n.eng.Unlock()
	return d, err
}

func (v *VI) waitOf(ctx context.Context, q *conn.Queue) (*Descriptor, error) {
	n := v.nic
	n.eng.Lock()
	d, err := v.takeFrom(q)
	if err != nil {
		if err == ErrNotDone {
			return v.awaitOf(ctx, q)
		}
		err = v.why(d, err)
	}
	n.eng.Unlock()
	return d, err
}

// awaitOf is waitOf if nothing has completed. The caller must hold the engine's lock; awaitOf
// releases it.
func (v *VI) awaitOf(ctx context.Context, q *conn.Queue) (*Descriptor, error) {
	n := v.nic
	w := n.eng.Begin(ctx)
	defer n.endWait(&w)
	for {
		if err := n.eng.Wait(&w, &q.Gate); err != nil {
			err = engine.WaitError(err)
			if v.left && errors.Is(err, ErrTimeout) {
				err = fmt.Errorf("%w: the VI is not connected: Disconnect was called on it", err)
			}
			return nil, err
		}
		if d, err := v.takeFrom(q); err != ErrNotDone {
			return d, v.why(d, err)
		}
	}
}

// why returns the error of a wait for d, given the error err of takeFrom: ErrDescriptor with the
// status and the end of the connection, and ErrQueueEmpty with the Disconnect that was called.
func (v *VI) why(d *Descriptor, err error) error {
	switch {
	case err == ErrQueueEmpty && v.left:
		return errLeft
	case err == ErrDescriptor && v.conn.End.Err != nil:
		return fmt.Errorf("%w: %w", err, errclass.Within("vipl: ", v.conn.End.Err))
	case err == ErrDescriptor:
		return fmt.Errorf("%w: %v", err, d.Status)
	}
	return err
}

// dequeue removes the oldest completed descriptor from q, with its results, or returns nil if there
// is none. Immediate data is a result of a receive only: the fields of a send are the program's, which
// may have prepared the next post already.
func dequeue(q *conn.Queue) *Descriptor {
	w := q.Dequeue()
	if w == nil {
		return nil
	}
	d := descriptorOf(w)
	d.Status, d.Length = Status(w.Status), w.Length
	if op := d.Status & StatusOpMask; op == StatusOpReceive || op == StatusOpRemoteRDMAWrite {
		d.HasImmediate, d.Immediate = w.HasImmediate, w.Immediate
	}
	w.SetSegs(nil) // so that it does not keep memory that the program gives up
	return d
}

func (v *VI) takeFrom(q *conn.Queue) (*Descriptor, error) {
	if d := dequeue(q); d != nil {
		if d.Status.Failed() {
			return d, ErrDescriptor
		}
		return d, nil
	}
	switch {
	case v.conn.Closed || v.nic.m.Closed:
		return nil, v.isClosed()
	case q.Len() == 0:
		return nil, ErrQueueEmpty
	}
	return nil, ErrNotDone
}

// Flush sends the messages that are held back to share a frame. Polling and waiting flush, too.
// Call it before a long computation after a post.
func (v *VI) Flush() {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	if !v.nic.m.Closed {
		v.nic.m.Uncork()
	}
}

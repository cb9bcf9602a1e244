package vipl

import "github.com/bobnet-go/bobnet/internal/fifo"

// Notification
//
// A handler is called once. It gets the next completion of its queue, or of its completion queue,
// as if a Done call had taken it. Several handlers wait in line (VIPL reference, section 9). A
// handler that wants each completion registers itself again.

// handlers are the handlers that wait for completions of one work queue or for entries of one CQ.
type (
	handlers      = fifo.Queue[func(v *VI, d *Descriptor, err error)]
	entryHandlers = fifo.Queue[func(v *VI, recv bool)]
)

// SendNotify registers f to be called once, with the next send that completes (VipSendNotify). If a
// send has already completed, SendNotify takes it and calls f before it returns, unless another
// handler is running. f gets the results of SendDone: err is nil, or ErrDescriptor if d completed
// in error. Descriptors that a Disconnect or a broken connection flushes count as completed.
//
// Handlers run on the goroutine that drives the NIC: inside a Wait, Done, Poll or Post call of the
// program, or on the NIC's own goroutine if no such call is active. No two handlers of a NIC run at
// the same time. f may call any method. While f blocks, other handlers wait. If f panics, the panic
// propagates through the call that ran it.
//
// Handlers are called in the order of their registration. At most as many may wait as the queue has
// descriptors; otherwise the error is ErrResource. The error is ErrArgument for a send queue that
// is bound to a completion queue: use CQ.Notify. VI.Close and NIC.Close cancel waiting handlers.
func (v *VI) SendNotify(f func(v *VI, d *Descriptor, err error)) error {
	return v.notify("notify of sends", false, f)
}

// RecvNotify registers f to be called once, with the next receive that completes (VipRecvNotify).
// See SendNotify.
func (v *VI) RecvNotify(f func(v *VI, d *Descriptor, err error)) error {
	return v.notify("notify of receives", true, f)
}

// handlers returns the handlers of the receive queue or of the send queue.
func (v *VI) handlers(recv bool) *handlers {
	if recv {
		return &v.recvHandlers
	}
	return &v.sendHandlers
}

// cqOf returns the completion queue of the receive queue, or of the send queue.
func (v *VI) cqOf(recv bool) *CQ {
	if recv {
		return v.recvCQ
	}
	return v.sendCQ
}

func (v *VI) notify(op string, recv bool, f func(v *VI, d *Descriptor, err error)) error {
	n, q, waiting := v.nic, v.conn.Queue(recv), v.handlers(recv)
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := v.isClosed(); err != nil {
		return err
	}
	switch {
	case f == nil:
		return opError(op, ErrArgument, "the handler is nil")
	case v.cqOf(recv) != nil:
		return opError(op, ErrArgument, "the queue is bound to a completion queue: use CQ.Notify")
	case waiting.Len() >= v.attr.QueueDepth:
		return opError(op, ErrResource, "%d handlers already wait, as many as the queue has descriptors", waiting.Len())
	}
	n.m.FinishReceives()
	waiting.Push(f)
	q.Handlers++
	if q.Untaken() > 0 {
		(*viOwner)(v).Notify(recv)
	}
	return nil
}

// Notify registers f to be called once, with the next entry of the completion queue (VipCQNotify).
// It takes the entry as Done does; f then takes the descriptor with SendDone or RecvDone. If there
// is an entry already, f runs before Notify returns, unless another handler is running.
// VI.SendNotify documents how, and in which order, handlers run. At most as many may wait as the
// queue has entries; otherwise the error is ErrResource. Close cancels waiting handlers.
func (q *CQ) Notify(f func(v *VI, recv bool)) error {
	const op = "notify of completion queue entries"
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := q.isClosed(); err != nil {
		return err
	}
	switch {
	case f == nil:
		return opError(op, ErrArgument, "the handler is nil")
	case q.handlers.Len() >= q.ring.Size:
		return opError(op, ErrResource, "%d handlers already wait, as many as the queue has entries", q.handlers.Len())
	}
	n.m.FinishReceives()
	q.handlers.Push(f)
	q.ring.Handlers++
	if v, recv, ok := q.nextEntry(); ok {
		q.tell(v, recv)
	}
	return nil
}

// tell gives an entry to the handler that has waited longest. There must be a handler.
func (q *CQ) tell(v *VI, recv bool) {
	q.ring.Handlers--
	q.nic.calls.Owe(call{entry: q.handlers.Pop(), v: v, q: q, recv: recv})
}

package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// reason says in a KindDisconnect frame why its sender ended the connection.
type reason uint8

const (
	reasonLeft      reason = iota // the peer called Disconnect or Close
	reasonNoReceive               // a message came and no receive was posted
	reasonTooLong                 // a message was longer than the posted receive
	reasonRDMA                    // an RDMA write was outside a region or without the right
	reasonProtocol                // frames contradicted each other
	reasonSilent                  // the other side had not answered for too long
	reasonLink                    // its sender's network interface was changed
	reasonRead                    // an RDMA read was outside a region or without the right
	reasonAltered                 // its program has shortened a send or a read that was posted
	reasonMTU                     // the path does not carry full-size frames any more
	reasonEnd
)

// cause returns the error that r means to both sides, or to the one that is told.
func (r reason) cause() error {
	switch r {
	case reasonNoReceive:
		return ErrRecvQueue
	case reasonTooLong:
		return ErrTooLong
	case reasonRDMA, reasonRead:
		return ErrRDMA
	case reasonProtocol:
		return ErrProtocol
	case reasonSilent:
		return ErrUnreachable
	case reasonLink:
		return ErrPeerLink
	case reasonAltered:
		return errAltered
	case reasonMTU:
		return ErrInvalidMTU
	}
	return ErrDisconnected
}

// ofMessage reports whether r is the fault of a message, whose number the farewell
// says. It may share a frame with others, which are not to blame.
func (r reason) ofMessage() bool { return r == reasonNoReceive || r == reasonTooLong }

// fail ends a connection because of what a frame of the peer asks: this side
// enters Error, the peer is told why.
func (v *VI) fail(why reason) {
	if why.ofMessage() {
		v.fault = v.rq.done - v.msgIn.base
	}
	v.sendDisconnect(why)
	v.blameReceive(why)
	v.nic.catchUp()
	v.flushSends() // none of ours is to blame
	v.enterError(why.cause(), "found here", why)
	v.nic.stats.Failures++
}

// blameReceive says what a frame of the peer has done: in the status of the
// receive that it would have spent, else as an asynchronous error (VIPL
// reference, section 7).
func (v *VI) blameReceive(why reason) {
	n := v.nic
	switch posted := v.rq.done != v.rq.tail; {
	case why == reasonTooLong && posted:
		v.rq.complete(v, StatusOpReceive|StatusLengthError, 0)
	case why == reasonRDMA && posted && v.rq.at(v.rq.done).oneSide:
		v.rq.complete(v, StatusOpRemoteRDMAWrite|StatusRDMAProtError, 0)
	case why == reasonRDMA:
		n.raise(CodeRDMAWProt, v, nil, StatusOpRemoteRDMAWrite, ErrRDMA)
	case why == reasonNoReceive:
		n.raise(CodeRecvqEmpty, v, nil, StatusOpReceive, ErrRecvQueue)
	}
}

// enterError moves the VI to the Error state and flushes its queues, as VIA
// has it. The send that is to blame gets the status that tells why.
func (v *VI) enterError(cause error, detail string, why reason) {
	n := v.nic
	n.catchUp()
	v.err = &ConnError{Local: v.Local(), Remote: v.remote, Err: cause, Detail: detail}
	v.state = StateError
	v.farewell, v.told = why, why == reasonSilent // whom nothing reaches
	n.raise(CodeConnLost, v, nil, 0, v.err)
	if v.sq.done != v.sq.tail {
		n.tx.flush(n)
		n.tx.discard(n)
		if status := v.blame(why); status != 0 {
			v.blameRDMA(status)
			for culprit := v.culprit(why); v.sq.done != culprit; {
				v.sq.complete(v, v.sq.at(v.sq.done).opStatus()|StatusFlushed, 0)
			}
			v.sq.complete(v, v.sq.at(v.sq.done).opStatus()|status, 0)
		}
	}
	v.flushAll()
	v.gate.Open(&n.eng)
	n.log.Debug("connection ended", "local", v.Local(), "remote", v.remote, "cause", cause)
}

// blame is the status of the send for which a connection ended
// (VIPL reference, section 10).
func (v *VI) blame(why reason) Status {
	switch {
	case why == reasonRDMA || why == reasonRead:
		return StatusRDMAProtError
	case why == reasonLeft || why == reasonAltered:
		return 0
	case v.attr.Reliability == reliability.ReliableReception && why != reasonSilent && why != reasonLink && why != reasonMTU:
		return StatusRemoteDescError
	}
	return StatusTransportError
}

// culprit returns the number of the send for which the peer has ended the
// connection: the oldest of which it has not acknowledged all and that comes not
// before the one it names, or the oldest read that it has not answered. Only reads keep acknowledged sends from
// completing.
func (v *VI) culprit(why reason) ethertype.Seq {
	if why == reasonSilent || !v.reliable {
		return v.sq.done
	}
	una := v.tx.Una()
	for i := v.sq.done; i != v.cursor.next; i++ {
		d := v.sq.at(i)
		if why == reasonRead && v.unanswered(d) || why != reasonRead && !d.last.Less(una) && !(why.ofMessage() && v.reached(d)) {
			return i
		}
	}
	if why == reasonRead || v.cursor.next == v.sq.tail {
		return v.sq.done
	}
	return v.cursor.next
}

// completeReached completes the sends before the one at fault that the peer has
// received, although it has not acknowledged the frame that they share with it.
func (v *VI) completeReached() {
	for v.sq.done != v.cursor.next && v.reached(v.sq.at(v.sq.done)) {
		v.finishSend()
	}
}

// reached reports whether d is a message before the one at fault.
func (v *VI) reached(d *Descriptor) bool {
	return (d.Op == OpSend || d.Op == OpRDMAWrite && d.HasImmediate) && d.msg.Less(v.fault)
}

// blameRDMA tells that an RDMA operation was under way when the connection
// ended, and may or may not have been done.
func (v *VI) blameRDMA(status Status) {
	if d := v.sq.at(v.sq.done); status == StatusTransportError && d.Op != OpSend {
		v.nic.raise(CodeRDMATransport, v, d, d.opStatus(), v.err)
	}
}

// sendDisconnect tells the peer that the connection is over, and why. The
// frame carries the last acknowledgement, so that what has arrived counts.
func (v *VI) sendDisconnect(why reason) {
	n := v.nic
	slot := n.tx.slot(n)
	if slot == nil {
		return
	}
	h := v.header(ethertype.KindDisconnect)
	h.Flags |= ethertype.FlagWholeCRC
	h.Msg, h.Size = v.fault, 1
	h.Put(slot)
	slot[ethertype.HeaderSize] = byte(why)
	n.tx.add(slot[:ethertype.HeaderSize+1], nil)
}

// flushAll completes everything that is posted with StatusFlushed, oldest
// first, and makes sure that the link no longer refers to its memory.
func (v *VI) flushAll() {
	v.flushSends()
	for v.rq.done != v.rq.tail {
		v.rq.complete(v, StatusOpReceive|StatusFlushed, 0)
	}
}

func (v *VI) flushSends() {
	if v.sq.done != v.sq.tail {
		v.nic.tx.flush(v.nic)
		v.nic.tx.discard(v.nic)
	}
	for v.sq.done != v.sq.tail {
		v.sq.complete(v, v.sq.at(v.sq.done).opStatus()|StatusFlushed, 0)
	}
	v.cursor = txCursor{next: v.sq.tail}
	v.reads.done = v.reads.sent
	v.serves.waiting = 0
}

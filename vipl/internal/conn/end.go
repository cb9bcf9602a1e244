package conn

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Reason says in a KindDisconnect frame why its sender ended the connection.
type Reason uint8

const (
	ReasonLeft      Reason = iota // the peer called Disconnect or Close
	reasonNoReceive               // a message came and no receive was posted
	reasonTooLong                 // a message was longer than the posted receive
	reasonRDMA                    // an RDMA write was outside a region or without the right
	ReasonProtocol                // frames contradicted each other
	ReasonSilent                  // the other side had not answered for too long
	ReasonLink                    // its sender's network interface was changed
	reasonRead                    // an RDMA read was outside a region or without the right
	reasonAltered                 // its program has shortened a send or a read that was posted
	reasonMTU                     // the path does not carry full-size frames any more
	reasonEnd
)

// Causes that the program is told of as they are.
var (
	errAborted = errors.New("vipl: an RDMA write arrived in part: frames of it were lost")
	errAltered = fmt.Errorf("%w: a descriptor's segments were altered while it was posted", code.ErrInvalidParameter)
)

// cause returns the error that r means to both sides, or to the one that is told.
func (r Reason) cause() error {
	switch r {
	case reasonNoReceive:
		return code.ErrRecvQueue
	case reasonTooLong:
		return code.ErrTooLong
	case reasonRDMA, reasonRead:
		return code.ErrRDMA
	case ReasonProtocol:
		return code.ErrProtocol
	case ReasonSilent:
		return code.ErrUnreachable
	case ReasonLink:
		return code.ErrPeerLink
	case reasonAltered:
		return errAltered
	case reasonMTU:
		return code.ErrInvalidMTU
	}
	return code.ErrDisconnected
}

// ofMessage reports whether r is the fault of a message, whose number the frame
// that says so names. It may share a frame with others, which are not to blame.
func (r Reason) ofMessage() bool { return r == reasonNoReceive || r == reasonTooLong }

// fail ends a connection because of what a frame of the peer asks: this side
// enters Error, the peer is told why.
func (c *Conn) fail(why Reason) {
	if why.ofMessage() {
		c.End.fault = c.RQ.done - c.rx.msgIn.base
	}
	c.SendDisconnect(why)
	c.blameReceive(why)
	c.a.CatchUp()
	c.FlushSends() // none of ours is to blame
	c.EnterError(why.cause(), "found here", why)
	c.a.Stats.Failures++
}

// blameReceive says what a frame of the peer has done: in the status of the
// receive that it would have spent, else as an asynchronous error (VIPL
// reference, section 7).
func (c *Conn) blameReceive(why Reason) {
	switch posted := c.RQ.done != c.RQ.tail; {
	case why == reasonTooLong && posted:
		c.RQ.complete(c, code.StatusOpReceive|code.StatusLengthError, 0)
	case why == reasonRDMA && posted && c.RQ.at(c.RQ.done).oneSide:
		c.RQ.complete(c, code.StatusOpRemoteRDMAWrite|code.StatusRDMAProtError, 0)
	case why == reasonRDMA:
		c.Owner.Raise(FaultWriteForbidden, nil, code.StatusOpRemoteRDMAWrite, code.ErrRDMA)
	case why == reasonNoReceive:
		c.Owner.Raise(FaultNoReceive, nil, code.StatusOpReceive, code.ErrRecvQueue)
	}
}

// EnterError moves the connection to the Error state and flushes its queues, as VIA
// has it. The send that is to blame gets the status that tells why.
func (c *Conn) EnterError(cause error, detail string, why Reason) {
	a := c.a
	a.CatchUp()
	c.State = StateError
	c.End.Why, c.End.Told = why, why == ReasonSilent // whom nothing reaches
	c.End.Err = c.Owner.Lost(cause, detail)
	if c.SQ.done != c.SQ.tail {
		a.flush()
		a.discard()
		if status := c.blame(why); status != 0 {
			c.blameRDMA(status)
			for culprit := c.culprit(why); c.SQ.done != culprit; {
				c.SQ.complete(c, c.SQ.at(c.SQ.done).opStatus()|code.StatusFlushed, 0)
			}
			c.SQ.complete(c, c.SQ.at(c.SQ.done).opStatus()|status, 0)
		}
	}
	c.flushAll()
	c.Owner.Ended(cause)
}

// blame is the status of the send for which a connection ended
// (VIPL reference, section 10).
func (c *Conn) blame(why Reason) code.Status {
	switch {
	case why == reasonRDMA || why == reasonRead:
		return code.StatusRDMAProtError
	case why == ReasonLeft || why == reasonAltered:
		return 0
	case c.terms.Reliability == reliability.ReliableReception && why != ReasonSilent && why != ReasonLink && why != reasonMTU:
		return code.StatusRemoteDescError
	}
	return code.StatusTransportError
}

// culprit returns the number of the send for which the peer has ended the
// connection: the oldest of which it has not acknowledged all and that comes not
// before the one it names, or the oldest read that it has not answered. Only reads keep acknowledged sends from
// completing.
func (c *Conn) culprit(why Reason) ethertype.Seq {
	if why == ReasonSilent || !c.Reliable {
		return c.SQ.done
	}
	una := c.tx.sender.Una()
	for i := c.SQ.done; i != c.tx.cursor.next; i++ {
		d := c.SQ.at(i)
		if why == reasonRead && c.reads.unanswered(d) || why != reasonRead && !d.last.Less(una) && !(why.ofMessage() && c.reached(d)) {
			return i
		}
	}
	if why == reasonRead || c.tx.cursor.next == c.SQ.tail {
		return c.SQ.done
	}
	return c.tx.cursor.next
}

// completeReached completes the sends before the one at fault that the peer has
// received, although it has not acknowledged the frame that they share with it.
func (c *Conn) completeReached() {
	for c.SQ.done != c.tx.cursor.next && c.reached(c.SQ.at(c.SQ.done)) {
		c.tx.finishSend(c.SQ.at(c.SQ.done))
	}
}

// reached reports whether d is a message before the one at fault.
func (c *Conn) reached(d *Descriptor) bool {
	return (d.Op == code.OpSend || d.Op == code.OpRDMAWrite && d.HasImmediate) && d.msg.Less(c.End.fault)
}

// blameRDMA tells that an RDMA operation was under way when the connection
// ended, and may or may not have been done.
func (c *Conn) blameRDMA(status code.Status) {
	if d := c.SQ.at(c.SQ.done); status == code.StatusTransportError && d.Op != code.OpSend {
		c.Owner.Raise(FaultUnderWay, d, d.opStatus(), c.End.Err)
	}
}

// SendDisconnect tells the peer that the connection is over, and why. The
// frame carries the last acknowledgement, so that what has arrived counts.
func (c *Conn) SendDisconnect(why Reason) {
	a := c.a
	slot := a.slot()
	if slot == nil {
		return
	}
	h := c.header(ethertype.KindDisconnect)
	h.Flags |= ethertype.FlagWholeCRC
	h.Msg, h.Size = c.End.fault, 1
	h.Put(slot)
	slot[ethertype.HeaderSize] = byte(why)
	a.batch.Add(slot[:ethertype.HeaderSize+1], nil)
}

// LastWord returns the header of the frame that tells the peer why the connection is over.
func (c *Conn) LastWord() ethertype.Header {
	h := *c.header(ethertype.KindDisconnect)
	h.Msg = c.End.fault
	return h
}

// flushAll completes everything that is posted with StatusFlushed, oldest
// first, and makes sure that the link no longer refers to its memory.
func (c *Conn) flushAll() {
	c.FlushSends()
	for c.RQ.done != c.RQ.tail {
		c.RQ.complete(c, code.StatusOpReceive|code.StatusFlushed, 0)
	}
}

// FlushSends is flushAll for the send queue.
func (c *Conn) FlushSends() {
	if c.SQ.done != c.SQ.tail {
		c.a.flush()
		c.a.discard()
	}
	for c.SQ.done != c.SQ.tail {
		c.SQ.complete(c, c.SQ.at(c.SQ.done).opStatus()|code.StatusFlushed, 0)
	}
	c.tx.cursor = txCursor{next: c.SQ.tail}
	c.reads.done = c.reads.sent
	c.serves.waiting = 0
}

// receiveDisconnect takes in the peer's word that the connection is over.
func (c *Conn) receiveDisconnect(h *ethertype.Header, payload []byte) {
	why := reasonEnd
	if len(payload) > 0 {
		why = Reason(payload[0]) // once: the peer may still write to it
	}
	if why >= reasonEnd {
		c.Drop(code.DropFormat)
		return
	}
	if c.Reliable {
		if progress, _ := c.tx.sender.OnAck(c.a.Now, h.Ack, h.Sack, nil); progress {
			c.tx.completeAcked()
		}
		if why.ofMessage() {
			c.End.fault = h.Msg
			c.completeReached()
		}
	}
	c.EnterError(why.cause(), "the peer says so", why)
	c.End.Told = true
	c.a.SendReset(h) // so that the peer need not say it again
}

package conn

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// fail ends the connection because of a frame from the peer: this side enters Error and notifies
// the peer of the reason.
func (c *Conn) fail(why code.Reason) {
	if why.OfMessage() {
		c.End.fault = c.RQ.done - c.rx.msgIn.base
	}
	c.SendDisconnect(why)
	c.blameReceive(why)
	c.shared.FinishReceives()
	c.FlushSends() // no send is at fault
	c.EnterError(why.Cause(), "found here", why)
	c.shared.CountFailure()
}

// blameReceive reports an error in a frame of the peer: in the status of the receive that the frame
// would have consumed, otherwise as an asynchronous error (VIPL reference, section 7).
func (c *Conn) blameReceive(why code.Reason) {
	switch posted := c.RQ.done != c.RQ.tail; {
	case why == code.ReasonTooLong && posted:
		c.RQ.complete(c, code.StatusOpReceive|code.StatusLengthError, 0)
	case why == code.ReasonRDMA && posted && c.RQ.at(c.RQ.done).oneSide:
		c.RQ.complete(c, code.StatusOpRemoteRDMAWrite|code.StatusRDMAProtError, 0)
	case why == code.ReasonRDMA:
		c.Owner.Raise(FaultWriteForbidden, nil, code.StatusOpRemoteRDMAWrite, code.ErrRDMA)
	case why == code.ReasonNoReceive:
		c.Owner.Raise(FaultNoReceive, nil, code.StatusOpReceive, code.ErrRecvQueue)
	}
}

// EnterError moves the connection to the Error state and flushes its queues, as VIA requires. The
// status of the send at fault contains the reason.
func (c *Conn) EnterError(cause error, detail string, why code.Reason) {
	sh := c.shared
	sh.FinishReceives()
	c.lending.Store(0)
	c.State = code.StateError
	c.End.Why, c.End.Told = why, why == code.ReasonSilent // the peer cannot be reached
	c.End.Err = c.Owner.Lost(cause, detail)
	if c.SQ.done != c.SQ.tail {
		sh.Discard()
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

// blame returns the status of the send at fault (VIPL reference, section 10).
func (c *Conn) blame(why code.Reason) code.Status {
	switch {
	case why == code.ReasonRDMA || why == code.ReasonRead:
		return code.StatusRDMAProtError
	case why == code.ReasonLeft || why == code.ReasonAltered:
		return 0
	case c.terms.Reliability == reliability.ReliableReception && why != code.ReasonSilent && why != code.ReasonLink && why != code.ReasonMTU:
		return code.StatusRemoteDescError
	}
	return code.StatusTransportError
}

// culprit returns the number of the send for which the peer has ended the connection. It is the
// oldest one that is not fully acknowledged and not before the one that the peer names, or the
// oldest unanswered read. Only reads keep acknowledged sends from completing.
func (c *Conn) culprit(why code.Reason) ethertype.Seq {
	if why == code.ReasonSilent || !c.Reliable {
		return c.SQ.done
	}
	una := c.tx.sender.Una()
	for i := c.SQ.done; i != c.tx.cursor.next; i++ {
		d := c.SQ.at(i)
		if why == code.ReasonRead && c.reads.unanswered(d) || why != code.ReasonRead && !d.last.Less(una) && !(why.OfMessage() && c.reached(d)) {
			return i
		}
	}
	if why == code.ReasonRead || c.tx.cursor.next == c.SQ.tail {
		return c.SQ.done
	}
	return c.tx.cursor.next
}

// completeReached completes the sends before the one at fault that the peer has received, but not
// acknowledged because they share its frame.
func (c *Conn) completeReached() {
	for c.SQ.done != c.tx.cursor.next && c.reached(c.SQ.at(c.SQ.done)) {
		c.tx.finishSend(c.SQ.at(c.SQ.done))
	}
}

// reached reports whether d is a message before the one at fault.
func (c *Conn) reached(d *Descriptor) bool {
	return (d.Op == code.OpSend || d.Op == code.OpRDMAWrite && d.HasImmediate) && d.msg.Less(c.End.fault)
}

// blameRDMA reports that an RDMA operation was in progress when the connection ended, and may or
// may not have been done.
func (c *Conn) blameRDMA(status code.Status) {
	if d := c.SQ.at(c.SQ.done); status == code.StatusTransportError && d.Op != code.OpSend {
		c.Owner.Raise(FaultUnderWay, d, d.opStatus(), c.End.Err)
	}
}

// SendDisconnect notifies the peer that the connection has ended, and why. The frame carries the
// last acknowledgement, so that received messages count as delivered.
func (c *Conn) SendDisconnect(why code.Reason) {
	sh := c.shared
	slot := sh.slot()
	if slot == nil {
		return
	}
	h := c.header(ethertype.KindDisconnect)
	h.Flags |= ethertype.FlagWholeCRC
	h.Msg, h.Size = c.End.fault, 1
	h.Put(slot)
	slot[ethertype.HeaderSize] = byte(why)
	sh.batch.Add(slot[:ethertype.HeaderSize+1], nil, nil)
}

// LastWord returns the header of the frame that notifies the peer of the end.
func (c *Conn) LastWord() ethertype.Header {
	h := *c.header(ethertype.KindDisconnect)
	h.Msg = c.End.fault
	return h
}

// flushAll completes all posted descriptors with StatusFlushed, oldest first, and ensures that the
// link no longer refers to their memory.
func (c *Conn) flushAll() {
	c.FlushSends()
	for c.RQ.done != c.RQ.tail {
		c.RQ.complete(c, code.StatusOpReceive|code.StatusFlushed, 0)
	}
}

// FlushSends flushes the send queue alone.
func (c *Conn) FlushSends() {
	c.lending.Store(0)
	if c.SQ.done != c.SQ.tail {
		c.shared.Discard()
	}
	for c.SQ.done != c.SQ.tail {
		c.SQ.complete(c, c.SQ.at(c.SQ.done).opStatus()|code.StatusFlushed, 0)
	}
	c.tx.cursor = txCursor{next: c.SQ.tail}
	c.reads.done = c.reads.sent
	c.serves.waiting = 0
}

// receiveDisconnect handles the peer's notification that the connection has ended.
func (c *Conn) receiveDisconnect(h *ethertype.Header, payload []byte) {
	why := code.ReasonEnd
	if len(payload) > 0 {
		why = code.Reason(payload[0]) // read once: the peer may still write to it
	}
	if why >= code.ReasonEnd {
		c.Drop(drops.Format)
		return
	}
	if c.Reliable {
		if progress, _ := c.tx.sender.OnAck(c.shared.now, h.Ack, h.Sack, nil); progress {
			c.tx.completeAcked()
		}
		if why.OfMessage() {
			c.End.fault = h.Msg
			c.completeReached()
		}
	}
	c.EnterError(why.Cause(), "the peer says so", why)
	c.End.Told = true
	c.shared.SendReset(h) // so that the peer need not repeat it
}

// ResetSize is the payload size of a KindReset frame: the tag of the frame that it answers, as
// proof that its sender received it, and the incarnation of the NIC.
const ResetSize = 12

func putReset(b []byte, tag uint32, incarnation uint64) {
	binary.BigEndian.PutUint32(b, tag)
	binary.BigEndian.PutUint64(b[4:], incarnation)
}

// SendReset answers h: this connection does not exist here, or no longer. The answer repeats the
// numbers of h with the roles exchanged, as a frame of the connection would, so that the sender of
// h can verify it.
func (sh *Shared) SendReset(h *ethertype.Header) {
	var body [ResetSize]byte
	putReset(body[:], h.Tag, sh.incarnation)
	sh.SendControl(ethertype.Header{
		Dst: h.Src, Kind: ethertype.KindReset, DstPort: h.SrcPort, SrcPort: h.DstPort, Seq: h.Ack, Ack: h.Seq,
	}, body[:])
}

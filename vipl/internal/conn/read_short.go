package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// This file is the fast path of RDMA reads: of a read that is alone on the send
// queue, whose request and whose answer are alone under way, and short.

// sendShortRead sends the request of the read at the cursor, if the answer can be taken
// in by receiveShortAnswer.
func (c *Conn) sendShortRead(d *Descriptor) bool {
	if d.total == 0 || len(d.Segs) != 1 {
		return false
	}
	f := c.reads.cutRead(d)
	seq, ackNow := c.tx.sender.Push(c.a.Now, f, true)
	h := c.header(ethertype.KindRDMARead)
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	var where [ethertype.RDMASize]byte
	ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}.Put(where[:])
	c.addShort(h, where[:], nil)
	return true
}

// receiveShortRead answers a request at once, before what it acknowledges is looked at,
// which is deferred.
func (c *Conn) receiveShortRead(h *ethertype.Header, payload []byte) bool {
	a, t := c.a, &c.serves
	switch {
	case h.Offset != 0 || h.Size != ethertype.RDMASize || h.Length == 0 || int(h.Length) > c.shortMax(),
		h.Msg != t.next || t.waiting > 0 || t.next.Sub(t.base) >= min(c.terms.ReadDepth, len(t.slots)),
		h.Ack != c.tx.sender.NextSeq() || c.tx.sender.InFlight() > 1 || a.batch.Len() > 0 || c.tx.sender.Room(a.Now) == 0:
		return false
	}
	s := serving{length: h.Length, seq: h.Seq, asked: true}
	s.from, _ = ethertype.ParseRDMA(payload)
	data := c.serves.source(&s)
	if data == nil {
		return false
	}
	c.rx.putOff(h.Ack)
	c.rx.receiver.Accept(a.Now, h.Seq, false)
	seq, ackNow := c.tx.sender.Push(a.Now, reliability.Sent{First: t.next, Size: h.Length, Count: 1, Flags: sentAnswer}, true)
	s.last = seq
	*t.slot(t.next) = s
	c.Stats.RDMABytes += uint64(h.Length)
	out := c.header(ethertype.KindReadData)
	out.Flags |= ethertype.FlagLast
	if ackNow {
		out.Flags |= ethertype.FlagAckNow
	}
	out.Seq, out.Msg, out.Length = seq, t.next, h.Length
	t.next++
	t.turn = true
	c.addShort(out, nil, data)
	return true
}

// receiveShortAnswer takes in the answer to the only read there is, the last of what has been
// posted, and completes it.
func (c *Conn) receiveShortAnswer(h *ethertype.Header, payload []byte) bool {
	a, t := c.a, &c.reads
	if h.Offset != 0 || h.Length != uint32(len(payload)) ||
		t.sent != t.done+1 || h.Msg != t.done || h.Ack != c.tx.sender.NextSeq() || c.SQ.tail != c.SQ.done+1 || c.serves.waiting > 0 {
		return false
	}
	d := c.SQ.at(c.SQ.done)
	if d.Op != code.OpRDMARead || d.got > 0 || h.Length != d.total || len(d.Segs) != 1 || len(d.Segs[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs[0].Data, payload)
	c.tx.sender.OnAck(a.Now, h.Ack, 0, nil) // now: the descriptor goes back to its owner
	c.rx.receiver.Accept(a.Now, h.Seq, false)
	c.serves.retire()
	t.done++
	c.tx.finishSend(d)
	return true
}

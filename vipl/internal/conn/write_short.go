package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/reliability"
)

// This file is the fast path of RDMA writes: of a write without immediate data that
// is alone on the send queue, in one piece, and short.

// sendShortWrite sends the write at the cursor, if receiveShortWrite can take it in.
func (c *Conn) sendShortWrite(d *Descriptor) bool {
	next := &c.tx.cursor
	if d.total == 0 || d.Unordered || len(d.Segs) != 1 || len(d.Segs[0].Data) != int(d.total) || int(d.total) > c.shortMax()-ethertype.RDMASize {
		return false
	}
	seq, ackNow := c.tx.sender.Push(c.a.Now, reliability.Sent{First: next.next, Size: d.total, Count: 1}, true)
	d.txState = txState{msg: next.msg, first: seq, last: seq}
	next.next++
	h := c.header(ethertype.KindRDMAWrite)
	h.Flags |= ethertype.FlagLast
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	var where [ethertype.RDMASize]byte
	ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}.Put(where[:])
	c.addShort(h, where[:], d.Segs[0].Data)
	return true
}

// receiveShortWrite writes to the region that the peer names, if it may. Nothing sent
// before it is missing. Its acknowledgement is deferred.
func (c *Conn) receiveShortWrite(h *ethertype.Header, payload []byte) bool {
	if len(payload) < ethertype.RDMASize {
		return false
	}
	r, data := ethertype.ParseRDMA(payload)
	if h.Offset != 0 || h.Length == 0 || int(h.Length) != len(data) || c.reads.open() {
		return false
	}
	dst := c.rx.target(r, h.Length)
	if dst == nil {
		return false
	}
	latch.StoreWords(dst, data)
	c.rx.wrote()
	a := c.a
	c.rx.putOff(h.Ack)
	c.rx.receiver.Accept(a.Now, h.Seq, false)
	c.Stats.RDMABytes += uint64(len(data))
	return true
}

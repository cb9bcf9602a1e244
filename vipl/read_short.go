package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// This file is the short way of RDMA reads: of a read that is alone on the send
// queue, its request and its answer, alone under way, and short.

// askShort sends the request of the read at the cursor, if the answer can be taken
// in by readShort.
func (v *VI) askShort(d *Descriptor) bool {
	if d.total == 0 || len(d.Segs) != 1 {
		return false
	}
	f := v.cutRead(d)
	seq, ackNow := v.tx.Push(v.nic.now, f, true)
	h := v.header(ethertype.KindRDMARead)
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	var where [ethertype.RDMASize]byte
	ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}.Put(where[:])
	v.addShort(h, where[:], nil)
	return true
}

// answerShort answers a request at once, before what it acknowledges is looked at,
// which is left as defers has it.
func (v *VI) answerShort(h *ethertype.Header, payload []byte) bool {
	n, t := v.nic, &v.serves
	switch {
	case h.Offset != 0 || h.Size != ethertype.RDMASize || h.Length == 0 || int(h.Length) > v.shortMax(),
		h.Msg != t.next || t.waiting > 0 || t.next.Sub(t.base) >= min(v.attr.ReadDepth, len(t.slots)),
		h.Ack != v.tx.NextSeq() || v.tx.InFlight() > 1 || n.tx.n > 0 || v.tx.Room(n.now) == 0:
		return false
	}
	s := serving{length: h.Length, seq: h.Seq, asked: true}
	s.from, _ = ethertype.ParseRDMA(payload)
	data := v.source(&s)
	if data == nil {
		return false
	}
	n.late = lateAck{vi: v, ack: h.Ack, at: n.now}
	v.rx.Accept(n.now, h.Seq, false)
	seq, ackNow := v.tx.Push(n.now, reliability.Sent{First: t.next, Size: h.Length, Count: 1, Flags: sentAnswer}, true)
	s.last = seq
	*t.slot(t.next) = s
	v.stats.RDMABytes += uint64(h.Length)
	out := v.header(ethertype.KindReadData)
	out.Flags |= ethertype.FlagLast
	if ackNow {
		out.Flags |= ethertype.FlagAckNow
	}
	out.Seq, out.Msg, out.Length = seq, t.next, h.Length
	t.next++
	t.turn = true
	v.addShort(out, nil, data)
	return true
}

// readShort takes in the answer to the only read there is, the last of what has been
// posted, and completes it.
func (v *VI) readShort(h *ethertype.Header, payload []byte) bool {
	n, t := v.nic, &v.reads
	if h.Offset != 0 || h.Length != uint32(len(payload)) ||
		t.sent != t.done+1 || h.Msg != t.done || h.Ack != v.tx.NextSeq() || v.sq.tail != v.sq.done+1 || v.serves.base != v.serves.next {
		return false
	}
	d := v.sq.at(v.sq.done)
	if d.Op != OpRDMARead || d.got > 0 || h.Length != d.total || len(d.Segs) != 1 || len(d.Segs[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs[0].Data, payload)
	v.tx.OnAck(n.now, h.Ack, 0, nil) // now: the descriptor goes back to its owner
	v.rx.Accept(n.now, h.Seq, false)
	t.done++
	v.finishSend()
	return true
}

package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// This file is the short way of RDMA writes: of a write without immediate data that
// is alone on the send queue, in one piece, and short.

// writeShort sends the write at the cursor, if placeShort can take it in.
func (v *VI) writeShort(d *Descriptor) bool {
	c := &v.cursor
	if d.total == 0 || d.Unordered || len(d.Segs) != 1 || len(d.Segs[0].Data) != int(d.total) || int(d.total) > v.shortMax()-ethertype.RDMASize {
		return false
	}
	seq, ackNow := v.tx.Push(v.nic.now, reliability.Sent{First: c.next, Size: d.total, Count: 1}, true)
	d.txState = txState{msg: c.msg, first: seq, last: seq}
	c.next++
	h := v.header(ethertype.KindRDMAWrite)
	h.Flags |= ethertype.FlagLast
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	var where [ethertype.RDMASize]byte
	ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}.Put(where[:])
	v.addShort(h, where[:], d.Segs[0].Data)
	return true
}

// placeShort writes to the region that the peer names, if it may. Nothing sent
// before it is missing. The acknowledgement is noted as defers has it.
func (v *VI) placeShort(h *ethertype.Header, payload []byte) bool {
	if len(payload) < ethertype.RDMASize {
		return false
	}
	r, data := ethertype.ParseRDMA(payload)
	if h.Offset != 0 || h.Length == 0 || int(h.Length) != len(data) || v.reads.open() {
		return false
	}
	dst := v.target(r, h.Length)
	if dst == nil {
		return false
	}
	storeWords(dst, data)
	v.wrote()
	n := v.nic
	n.late = lateAck{vi: v, ack: h.Ack, at: n.now}
	v.rx.Accept(n.now, h.Seq, false)
	v.stats.RDMABytes += uint64(len(data))
	return true
}

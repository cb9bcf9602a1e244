package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// The short way
//
// What a program waits for one message at a time, as in a ping-pong, is mostly the
// same: a short message alone in the frame that comes next, and its answer, alone
// under way. For these two there are a function each that does what the engine's
// general way does for them, and leaves all others to that. It is a second way to do
// a thing because it takes three quarters of the first one's time between a frame and
// its answer: not for what it computes, which is little either way, but because the
// kernel, which runs in between, leaves little of the engine's code in the processor's
// caches, and this is a tenth of it.

// pushShort sends the one message that is unsent, which lone has seen, and reports
// whether it has.
func (v *VI) pushShort() bool {
	n, c := v.nic, &v.cursor
	d := v.sq.at(c.next)
	if len(d.Segs) != 1 || len(d.Segs[0].Data) != int(d.total) || d.Op != OpSend || d.HasImmediate ||
		int(d.total) > min(copyMax, v.pathData, n.tx.inline()) || n.tx.n > 0 || v.proven || v.reads.open() || v.tx.Room(n.now) == 0 {
		return false
	}
	seq, ackNow := v.tx.Push(n.now, reliability.Sent{First: c.next, Size: d.total, Count: 1}, true)
	d.txState = txState{msg: c.msg, first: seq, last: seq}
	c.msg++
	c.next++
	h := v.header(ethertype.KindData)
	h.Flags |= ethertype.FlagLast
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Count = seq, d.msg, 1
	h.Length, h.Size = d.total, uint16(d.total)
	head := n.tx.slots[:ethertype.HeaderSize+int(d.total)]
	h.Put(head)
	copy(head[ethertype.HeaderSize:], d.Segs[0].Data)
	n.tx.add(head, nil)
	n.short++
	return true
}

// receiveShort takes in the frame of a poll that found no other, if it is the one
// that its VI expects, and reports whether it has. Its acknowledgement is noted as
// defers has it.
func (n *NIC) receiveShort(frame []byte) bool {
	v := n.viAt(ethertype.DstPort(frame))
	if v == nil || v.state != StateConnected {
		return false
	}
	h := &n.rxh
	payload, ok := v.usual.Parse(h, frame)
	if !ok || h.Seq != v.rx.Next() || v.rx.Gap() || h.Sack != 0 || !v.mayDefer(h.Ack) || v.reads.open() {
		return false
	}
	i := v.msgIn.base + h.Msg
	if i != v.rq.done || i == v.rq.tail || h.Length >= n.bulk.from {
		return false
	}
	d := v.rq.at(i)
	if d.begun || h.Length > d.total || len(d.Segs) != 1 || len(d.Segs[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs[0].Data, payload)
	n.stats.RxFrames++
	n.stats.RxBytes += uint64(len(frame))
	v.stats.RxFrames++
	v.heard, v.probes = n.now, 0
	n.touch(v)
	n.late = lateAck{vi: v, ack: h.Ack, at: n.now}
	v.rx.Accept(n.now, h.Seq, false)
	d.length, d.HasImmediate = h.Length, false
	v.finishReceive(d)
	n.short++
	if v.rx.AckDue(n.now) {
		n.catchUp()
	}
	return true
}

// remember notes a frame that was alone, in its turn and taken, if others like it
// may go the short way: they differ behind the prefix only.
func (v *VI) remember(h *ethertype.Header) {
	const either = ethertype.FlagTakesBulk | ethertype.FlagTakesLong | ethertype.FlagWholeCRC
	if h.Kind == ethertype.KindData && h.Flags&^either == ethertype.FlagLast {
		v.usual = h.Prefix()
	}
}

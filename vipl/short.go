package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// The short way
//
// What a program waits for one message at a time, as in a ping-pong, is mostly the
// same: a short message alone in the frame that comes next, and its answer, alone
// under way; or a short RDMA read or write (see read_short.go and write_short.go). For each of these there is a
// function that does what the engine's general way does for them, and leaves all
// others to that. It is a second way to do a thing because it takes three quarters of
// the first one's time between a frame and its answer: not for what it computes, which
// is little either way, but because the kernel, which runs in between, leaves little
// of the engine's code in the processor's caches, and this is a tenth of it.

// pushShort sends the one message that is unsent, which lone has seen, and reports
// whether it has.
func (v *VI) pushShort() bool {
	n, c := v.nic, &v.cursor
	d := v.sq.at(c.next)
	if n.tx.n > 0 || d.HasImmediate || v.proven || v.reads.open() || v.tx.Room(n.now) == 0 {
		return false
	}
	switch d.Op {
	case OpRDMARead:
		return v.askShort(d)
	case OpRDMAWrite:
		return v.writeShort(d)
	}
	if len(d.Segs) != 1 || len(d.Segs[0].Data) != int(d.total) || int(d.total) > v.shortMax() {
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
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	v.addShort(h, nil, d.Segs[0].Data)
	return true
}

// shortMax returns how many bytes may be copied to a frame that is sent the short way.
func (v *VI) shortMax() int { return min(copyMax, v.pathData, v.nic.tx.inline()) }

// addShort adds the first frame of a batch, which holds data behind an extension.
func (v *VI) addShort(h *ethertype.Header, extension, data []byte) {
	b := &v.nic.tx
	h.Count, h.Size = 1, uint16(len(extension)+len(data))
	head := b.slots[:ethertype.HeaderSize+len(extension)+len(data)]
	h.Put(head)
	copy(head[ethertype.HeaderSize:], extension)
	copy(head[ethertype.HeaderSize+len(extension):], data)
	b.add(head, nil)
	v.nic.short++
}

// receiveShort takes in the frame of a poll that found no other, if it is the one
// that its VI expects, and reports whether it has.
func (n *NIC) receiveShort(frame []byte) bool {
	v := n.viAt(ethertype.DstPort(frame))
	if v == nil || v.state != StateConnected {
		return false
	}
	h := &n.rxh
	payload, ok := v.usual.Parse(h, frame)
	if !ok || h.Seq != v.rx.Next() || v.rx.Gap() || h.Sack != 0 || !v.mayDefer(h.Ack) {
		return false
	}
	switch v.usual.Kind() {
	case ethertype.KindData:
		ok = v.takeShort(h, payload)
	case ethertype.KindRDMAWrite:
		ok = v.placeShort(h, payload)
	case ethertype.KindRDMARead:
		ok = v.answerShort(h, payload)
	default:
		ok = v.readShort(h, payload)
	}
	if !ok {
		return false
	}
	n.stats.RxFrames++
	n.stats.RxBytes += uint64(len(frame))
	v.stats.RxFrames++
	v.heard, v.probes = n.now, 0
	n.touch(v)
	n.short++
	if n.late.vi != nil && v.rx.AckDue(n.now) {
		n.catchUp()
	}
	return true
}

// takeShort takes in a message. Its acknowledgement is noted as defers has it.
func (v *VI) takeShort(h *ethertype.Header, payload []byte) bool {
	n, i := v.nic, v.msgIn.base+h.Msg
	if i != v.rq.done || i == v.rq.tail || h.Offset != 0 || h.Length != uint32(len(payload)) || v.reads.open() {
		return false
	}
	d := v.rq.at(i)
	if d.begun || h.Length > d.total || len(d.Segs) != 1 || len(d.Segs[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs[0].Data, payload)
	n.late = lateAck{vi: v, ack: h.Ack, at: n.now}
	v.rx.Accept(n.now, h.Seq, false)
	d.length, d.HasImmediate = h.Length, false
	v.finishReceive(d)
	return true
}

// remember notes a frame that was alone, in its turn and taken, if others like it
// may go the short way: they differ behind the prefix only.
func (v *VI) remember(h *ethertype.Header) {
	const either = ethertype.FlagTakesLong | ethertype.FlagWholeCRC
	want := ethertype.FlagLast
	if h.Kind == ethertype.KindRDMARead {
		want = 0
	}
	if h.Flags&^either == want {
		v.usual = h.Prefix()
	}
}

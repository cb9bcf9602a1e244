package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// The fast path
//
// What a program waits for one message at a time, as in a ping-pong, is mostly the
// same: a short message alone in the frame that comes next, and its answer, alone
// under way; or a short RDMA read or write (see read_short.go and write_short.go). For each of these
// there is one function that sends and one that receives.
// They do what the general path does for them, and leave all others to that: sendShort and
// ReceiveShort are the only ways in. It is a second way to do a thing because it takes three quarters of
// the first one's time between a frame and its answer: not for what it computes, which
// is little either way, but because the kernel, which runs in between, leaves little
// of the engine's code in the processor's caches, and this is a tenth of it.

// sendShort sends the one message that is unsent, which single has seen, and reports
// whether it has.
func (c *Conn) sendShort() bool {
	a, next := c.a, &c.tx.cursor
	d := c.SQ.at(next.next)
	if a.batch.Len() > 0 || d.HasImmediate || d.AckNow || c.Path.switching || c.reads.open() || c.tx.sender.Room(a.Now) == 0 {
		return false
	}
	switch d.Op {
	case code.OpRDMARead:
		return c.sendShortRead(d)
	case code.OpRDMAWrite:
		return c.sendShortWrite(d)
	}
	if len(d.Segs) != 1 || len(d.Segs[0].Data) != int(d.total) || int(d.total) > c.shortMax() {
		return false
	}
	seq, ackNow := c.tx.sender.Push(a.Now, reliability.Sent{First: next.next, Size: d.total, Count: 1}, true)
	d.txState = txState{msg: next.msg, first: seq, last: seq}
	next.msg++
	next.next++
	h := c.header(ethertype.KindData)
	h.Flags |= ethertype.FlagLast
	if ackNow {
		h.Flags |= ethertype.FlagAckNow
	}
	h.Seq, h.Msg, h.Length = seq, d.msg, d.total
	c.addShort(h, nil, d.Segs[0].Data)
	return true
}

// shortMax returns how many bytes may be copied to a frame that is sent by the fast path.
func (c *Conn) shortMax() int { return min(copyMax, c.Path.Data, c.a.batch.Inline()) }

// addShort adds a frame that holds data behind an extension, the first of a batch.
func (c *Conn) addShort(h *ethertype.Header, extension, data []byte) {
	b := &c.a.batch
	h.Count, h.Size = 1, uint16(len(extension)+len(data))
	head := b.Slot()[:ethertype.HeaderSize+len(extension)+len(data)]
	h.Put(head)
	at := ethertype.HeaderSize
	if len(extension) > 0 {
		at += copy(head[at:], extension)
	}
	copy(head[at:], data)
	b.AddFirst(&c.Path.joining, head)
	c.a.FastPath++
}

// ReceiveShort takes in the only frame of a poll, if it is the one that is expected, and reports
// whether it has.
func (c *Conn) ReceiveShort(frame []byte) bool {
	if c.State != code.StateConnected {
		return false
	}
	a := c.a
	h, r := &a.In, &c.rx
	payload, ok := r.predicted.Parse(h, frame)
	if !ok || h.Seq != r.receiver.Next() || r.receiver.Gap() || h.Sack != 0 || !r.mayDeferAck(h.Ack) {
		return false
	}
	switch r.predicted.Kind() {
	case ethertype.KindData:
		ok = c.receiveShortMessage(h, payload)
	case ethertype.KindRDMAWrite:
		ok = c.receiveShortWrite(h, payload)
	case ethertype.KindRDMARead:
		ok = c.receiveShortRead(h, payload)
	default:
		ok = c.receiveShortAnswer(h, payload)
	}
	if !ok {
		return false
	}
	c.Stats.RxFrames++
	c.heard, c.probes = a.Now, 0
	a.touch(c)
	a.FastPath++
	if a.deferred > 0 && r.receiver.AckDue(a.Now) {
		a.CatchUp()
	}
	return true
}

// receiveShortMessage takes in a message. Its acknowledgement is deferred.
func (c *Conn) receiveShortMessage(h *ethertype.Header, payload []byte) bool {
	a, i := c.a, c.rx.msgIn.base+h.Msg
	if i != c.RQ.done || i == c.RQ.tail || h.Offset != 0 || h.Length != uint32(len(payload)) || c.reads.open() {
		return false
	}
	d := c.RQ.at(i)
	if d.begun || h.Length > d.total || len(d.Segs) != 1 || len(d.Segs[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs[0].Data, payload)
	c.rx.putOff(h.Ack)
	c.rx.receiver.Accept(a.Now, h.Seq, false)
	d.length, d.HasImmediate = h.Length, false
	c.rx.finishReceive(d)
	return true
}

// ForgetPrediction keeps the frame that comes next from the fast path.
func (c *Conn) ForgetPrediction() { c.rx.predicted = ethertype.Prefix{} }

// predict notes the only frame of a poll, in its turn and taken, if others like it may take the
// fast path: they differ behind the prefix only.
func (c *Conn) predict(h *ethertype.Header) {
	const either = ethertype.FlagTakesLong | ethertype.FlagWholeCRC
	want := ethertype.FlagLast
	if h.Kind == ethertype.KindRDMARead {
		want = 0
	}
	if h.Flags&^either == want {
		c.rx.predicted = h.Prefix()
	}
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// The fast path
//
// A program that waits for one message at a time, as in a ping-pong, mostly sends and receives the
// same kinds of frames: a short message that is alone in its frame, and alone in flight, and its
// answer; or a short RDMA read or write. sendFast sends them, as the first case of next.
// ReceiveFast receives them. Both have the same effect as the general path, which TestFastPath
// checks, and leave all other cases to it.
//
// The fast path saves a quarter of the time between a frame and its answer, although it computes
// little less. The kernel runs in between and evicts most of the engine's code from the processor's
// caches. The fast path is a tenth of that code.

// sendFast sends the only unsent descriptor if it is short and in one segment. It reports whether
// it did.
func (c *Conn) sendFast() bool {
	sh, t := c.shared, &c.tx
	d := c.SQ.at(t.cursor.next)
	if sh.batch.Len() > 0 || d.HasImmediate || c.Path.switching || c.reads.outstanding() || t.sender.Room(sh.now) == 0 ||
		len(d.Segs()) != 1 || len(d.Segs()[0].Data) != int(d.total) {
		return false
	}
	f := fastFrame{kind: ethertype.KindData, length: d.total, data: d.Segs()[0].Data, what: reliability.Sent{First: t.cursor.next, Size: d.total, Count: 1}}
	room := c.fastMax()
	switch d.Op {
	case code.OpRDMAWrite:
		if d.total == 0 || d.Unordered {
			return false
		}
		f.kind, room = ethertype.KindRDMAWrite, room-ethertype.RDMASize
	case code.OpRDMARead:
		if d.total == 0 {
			return false
		}
		f.kind, f.data = ethertype.KindRDMARead, nil
	}
	if len(f.data) > room {
		return false
	}
	if d.Op == code.OpRDMARead {
		f.what = c.reads.cutRead(d)
	} else {
		d.txState = txState{msg: t.cursor.msg, first: t.sender.NextSeq(), last: t.sender.NextSeq()}
		t.cursor.next++
		if d.AckNow {
			f.what.Flags = sentAsks
		}
	}
	if d.Op == code.OpSend {
		t.cursor.msg++
	} else {
		f.where = d.RDMA
	}
	f.msg = d.msg
	c.addFast(&f)
	return true
}

// fastMax returns how many bytes may be copied to a frame of the fast path.
func (c *Conn) fastMax() int { return min(copyMax, c.Path.Data, c.shared.batch.Inline()) }

// fastFrame describes a frame of the fast path.
type fastFrame struct {
	kind   ethertype.Kind
	msg    ethertype.Seq
	length uint32         // of the message, write or read
	data   []byte         // in the frame
	where  ethertype.RDMA // target of a read or a write
	what   reliability.Sent
}

// addFast numbers and builds a frame that is alone in flight, and adds it to the empty batch.
func (c *Conn) addFast(f *fastFrame) (seq ethertype.Seq) {
	seq, ackNow := c.tx.sender.Push(c.shared.now, f.what, true)
	h := c.header(f.kind)
	if ackNow || f.what.Flags&sentAsks != 0 {
		h.Flags |= ethertype.FlagAckNow
	}
	if f.kind != ethertype.KindRDMARead {
		h.Flags |= ethertype.FlagLast
	}
	b := &c.shared.batch
	slot, at := b.Slot(), ethertype.HeaderSize
	if f.kind == ethertype.KindRDMARead || f.kind == ethertype.KindRDMAWrite {
		f.where.Put(slot[at:])
		at += ethertype.RDMASize
	}
	at += copy(slot[at:], f.data)
	h.Seq, h.Msg, h.Length, h.Count, h.Size = seq, f.msg, f.length, 1, uint16(at-ethertype.HeaderSize)
	h.Put(slot)
	b.AddFirst(&c.Path.joining, slot[:at])
	c.shared.FastPath++
	return seq
}

// ReceiveFast handles the only frame of a poll if it is the expected one. It reports whether it
// did.
func (c *Conn) ReceiveFast(frame []byte) bool {
	if c.State != code.StateConnected {
		return false
	}
	sh := c.shared
	h, r := &sh.in, &c.rx
	payload, ok := r.predicted.Parse(h, frame)
	if !ok || h.Seq != r.receiver.Next() || r.receiver.Gap() || h.Sack != 0 || h.Offset != 0 || !r.mayDeferAck(h.Ack) {
		return false
	}
	switch r.predicted.Kind() {
	case ethertype.KindData:
		ok = c.receiveFastMessage(h, payload)
	case ethertype.KindRDMAWrite:
		ok = c.receiveFastWrite(h, payload)
	case ethertype.KindRDMARead:
		ok = c.receiveFastRead(h, payload)
	default:
		ok = c.receiveFastAnswer(h, payload)
	}
	if !ok {
		return false
	}
	c.Stats.RxFrames++
	c.heard, c.probes = sh.now, 0
	sh.touch(c)
	sh.FastPath++
	switch {
	case sh.batch.Len() > 0: // the answer to a read
		sh.flushFirst()
	case sh.deferred > 0 && r.receiver.AckDue(sh.now):
		sh.FinishReceives()
	}
	return true
}

// receiveFastMessage receives a message. It defers the frame's acknowledgement.
func (c *Conn) receiveFastMessage(h *ethertype.Header, payload []byte) bool {
	i := c.rx.msgIn.base + h.Msg
	if i != c.RQ.done || i == c.RQ.tail || h.Length != uint32(len(payload)) || c.reads.outstanding() {
		return false
	}
	d := c.RQ.at(i)
	if d.begun || h.Length > d.total || len(d.Segs()) != 1 || len(d.Segs()[0].Data) < len(payload) {
		return false
	}
	begin := c.beginCopy(payload)
	copy(d.Segs()[0].Data, payload)
	c.endCopy(payload, begin)
	c.rx.deferAck(h.Ack)
	c.rx.receiver.Accept(c.shared.now, h.Seq, c.rx.asked(), true)
	d.length, d.HasImmediate = h.Length, false
	c.rx.finishReceive(d)
	return true
}

// receiveFastWrite writes to the region that the peer names, if the peer may. No earlier frame is
// missing. It defers the frame's acknowledgement.
func (c *Conn) receiveFastWrite(h *ethertype.Header, payload []byte) bool {
	if len(payload) < ethertype.RDMASize {
		return false
	}
	where, data := ethertype.ParseRDMA(payload)
	if h.Length == 0 || int(h.Length) != len(data) || c.reads.outstanding() {
		return false
	}
	dst := c.rx.target(where, h.Length)
	if dst == nil {
		return false
	}
	begin := c.beginCopy(data)
	latch.StoreWords(dst, data)
	c.endCopy(data, begin)
	c.rx.wrote()
	c.rx.deferAck(h.Ack)
	c.rx.receiver.Accept(c.shared.now, h.Seq, c.rx.asked(), true)
	c.Stats.RDMABytes += uint64(len(data))
	return true
}

// receiveFastRead answers a read at once. It defers the request's acknowledgement.
func (c *Conn) receiveFastRead(h *ethertype.Header, payload []byte) bool {
	sh, t, sender := c.shared, &c.serves, &c.tx.sender
	switch {
	case h.Size != ethertype.RDMASize || h.Length == 0 || int(h.Length) > c.fastMax(),
		h.Msg != t.next || t.waiting > 0 || t.next.Sub(t.base) >= min(c.terms.ReadDepth, len(t.slots)),
		h.Ack != sender.NextSeq() || sender.InFlight() > 1 || sh.batch.Len() > 0 || sender.Room(sh.now) == 0:
		return false
	}
	s := serving{length: h.Length, seq: h.Seq, asked: true}
	s.from, _ = ethertype.ParseRDMA(payload)
	data := t.source(&s)
	if data == nil {
		return false
	}
	c.rx.deferAck(h.Ack)
	c.rx.receiver.Accept(sh.now, h.Seq, c.rx.asked(), true)
	s.last = c.addFast(&fastFrame{kind: ethertype.KindReadData, msg: t.next, length: h.Length, data: data,
		what: reliability.Sent{First: t.next, Size: h.Length, Count: 1, Flags: sentAnswer}})
	*t.slot(t.next) = s
	c.Stats.RDMABytes += uint64(h.Length)
	t.next++
	t.turn = true
	return true
}

// receiveFastAnswer receives the answer to the only read in flight, which is the last descriptor on
// the send queue, and completes it. It does not defer the acknowledgement, because the descriptor
// returns to its owner.
func (c *Conn) receiveFastAnswer(h *ethertype.Header, payload []byte) bool {
	t := &c.reads
	if h.Length != uint32(len(payload)) || t.sent != t.done+1 || h.Msg != t.done ||
		h.Ack != c.tx.sender.NextSeq() || c.SQ.tail != c.SQ.done+1 || c.serves.waiting > 0 {
		return false
	}
	d := c.SQ.at(c.SQ.done)
	if d.Op != code.OpRDMARead || d.got > 0 || h.Length != d.total || len(d.Segs()) != 1 || len(d.Segs()[0].Data) < len(payload) {
		return false
	}
	copy(d.Segs()[0].Data, payload)
	c.tx.sender.OnAck(c.shared.now, h.Ack, 0, nil)
	c.rx.receiver.Accept(c.shared.now, h.Seq, c.rx.asked(), true)
	c.serves.retire()
	t.done++
	c.tx.finishSend(d)
	return true
}

// asked reports whether the predicted frames request an acknowledgement.
func (r *rxHalf) asked() bool { return r.predicted.Flags()&ethertype.FlagAckNow != 0 }

// ForgetPrediction makes the next frame take the general path.
func (c *Conn) ForgetPrediction() { c.rx.predicted = ethertype.Prefix{} }

// predict stores the header of a frame that was alone in its poll, in order, and placed. Frames
// that differ from it only behind the prefix may take the fast path.
func (c *Conn) predict(h *ethertype.Header) {
	const either = ethertype.FlagTakesLong | ethertype.FlagWholeCRC | ethertype.FlagAckNow
	want := ethertype.FlagLast
	if h.Kind == ethertype.KindRDMARead {
		want = 0
	}
	if h.Flags&^either == want {
		c.rx.predicted = h.Prefix()
	}
}

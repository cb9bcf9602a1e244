package conn

import (
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// txCursor is the position of transmission on the send queue.
type txCursor struct {
	next   ethertype.Seq // the next descriptor to transmit
	offset uint32        // bytes of it already transmitted
	msg    ethertype.Seq // number of the next message that consumes a receive
}

// cutNext cuts the next new frame. It returns false if the send queue waits for reads.
func (t *txHalf) cutNext(f *reliability.Sent) bool {
	answers := &t.c.serves
	if answers.waiting == 0 && !t.c.reads.outstanding() { // nothing to alternate with or to wait for
		*f = t.cut()
		return true
	}
	answer := answers.ready()
	own := t.cursor.next != t.c.SQ.tail && !t.c.reads.waits()
	switch {
	case answer && !(own && answers.turn):
		answers.turn = true
		*f = answers.cut()
	case own:
		answers.turn = false
		*f = t.cut()
	default:
		return false
	}
	return true
}

// cut removes the next frame's data from the send queue.
func (t *txHalf) cut() reliability.Sent {
	next := &t.cursor
	d := t.c.SQ.at(next.next)
	if next.offset == 0 {
		if t.c.Path.switching {
			t.c.Path.switchSize()
		}
		if next.next+1 != t.c.SQ.tail { // other messages could share its frame
			if p := t.pack(); p.Count > 1 {
				return t.cutPacked(&p)
			}
		}
		if d.Op == code.OpRDMARead {
			return t.c.reads.cutRead(d)
		}
		d.first, d.msg = t.sender.NextSeq(), next.msg
		if d.Op == code.OpSend || d.HasImmediate {
			next.msg++
		}
	}
	size := fragmentSize(d.total-next.offset, t.c.Path.MaxData-d.extension(), d.Op == code.OpRDMAWrite)
	if d.Op == code.OpRDMAWrite && next.offset == 0 && size < d.total && t.c.Reliable {
		size = firstFragment(size, d.total, d.Addr)
	}
	f := reliability.Sent{First: next.next, Offset: next.offset, Size: size, Count: 1}
	next.offset += size
	if next.offset == d.total {
		d.last = t.sender.NextSeq()
		next.next++
		next.offset = 0
		if d.AckNow {
			f.Flags = sentAsks
		}
	}
	return f
}

// extension returns how many payload bytes precede the data in each of d's frames.
func (d *Descriptor) extension() int {
	switch {
	case d.Op != code.OpSend:
		return ethertype.RDMASize
	case d.HasImmediate:
		return ethertype.ImmediateSize
	}
	return 0
}

// build builds the frame that f describes and adds it to the batch. It returns false if the link
// accepts no more now, or the connection has ended.
func (t *txHalf) build(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	if f.Flags&sentAnswer != 0 {
		return t.c.serves.build(f, seq, flags)
	}
	sh := t.c.shared
	slot := sh.slot()
	if slot == nil {
		return false
	}
	d := t.c.SQ.at(f.First)
	h := t.c.header(ethertype.KindData)
	h.Flags |= flags
	h.Seq, h.Msg, h.Count = seq, d.msg, f.Count
	if f.Count > 1 {
		h.Flags |= ethertype.FlagPacked
		h.Size = uint16(f.Size)
		h.Put(slot)
		return t.fillPacked(slot, f)
	}
	at := ethertype.HeaderSize
	switch {
	case d.Op != code.OpSend:
		h.Kind = ethertype.KindRDMAWrite
		if d.Op == code.OpRDMARead {
			h.Kind = ethertype.KindRDMARead
		} else if d.Unordered {
			h.Flags |= ethertype.FlagUnordered
		}
		d.RDMA.Put(slot[at:])
		at += ethertype.RDMASize
	case d.HasImmediate:
		ethertype.PutImmediate(slot[at:], d.Immediate)
		at += ethertype.ImmediateSize
	}
	if d.HasImmediate {
		h.Flags |= ethertype.FlagImmediate
	}
	if f.Offset+f.Size == d.total {
		h.Flags |= ethertype.FlagLast
	}
	h.Offset, h.Length = f.Offset, d.total
	h.Size = uint16(at - ethertype.HeaderSize + int(f.Size))
	h.Put(slot)
	return t.fill(slot, at, d, f)
}

// fill adds the frame's data: short data as a copy in the slot, longer data by reference. It
// returns false if the data no longer exist.
func (t *txHalf) fill(slot []byte, at int, d *Descriptor, f *reliability.Sent) bool {
	sh := t.c.shared
	if f.Size <= copyMax && int(f.Size) <= len(slot)-at {
		if !memory.CopyOut(slot[at:], d.Segs(), f.Offset, f.Size) {
			return t.altered()
		}
		t.c.Path.addShort(slot[:at+int(f.Size)])
		return true
	}
	body, ok := memory.AppendParts(sh.batch.Body(), d.Segs(), f.Offset, f.Size)
	if !ok {
		return t.altered()
	}
	sh.batch.Add(slot[:at], body, t.lent())
	return true
}

// lent returns the mark of frames whose data stay at their place until they are acknowledged: the program
// may not change them before the send completes. On the unreliable level it completes at once, and there is
// none.
func (t *txHalf) lent() *atomic.Uint64 {
	if !t.c.Reliable {
		return nil
	}
	return &t.c.lending
}

// addShort adds a frame to the batch that is entirely in its slot, with a header from header.
func (p *Path) addShort(frame []byte) {
	p.c.shared.batch.AddShared(&p.joining, p.Data+ethertype.HeaderSize, p.c.out.Flags&ethertype.FlagRetry != 0, frame)
}

// altered ends the connection because the segments of a send hold less than when it was posted. The
// send's status reports this when it is flushed. altered returns false, for callers that have built
// no frame.
func (t *txHalf) altered() bool {
	t.c.shared.FinishReceives() // which may call altered again
	if t.c.State == code.StateConnected {
		t.c.fail(code.ReasonAltered)
	}
	return false
}

// header returns a header to the peer with all fields that frames of the connection share,
// including the acknowledgement, and the number of the next sequenced frame. The connection keeps
// the header, so that most fields need not be written again for each frame.
func (c *Conn) header(kind ethertype.Kind) *ethertype.Header {
	h := &c.out
	h.Kind, h.Flags = kind, c.flags
	h.Seq, h.Msg, h.Offset, h.Length, h.Size, h.Count = c.tx.sender.NextSeq(), 0, 0, 0, 0, 0
	if c.Reliable {
		h.Ack, h.Sack = c.rx.receiver.Ack()
	}
	if c.Reliable && kind != ethertype.KindProbe && kind != ethertype.KindProbeAck { // whose acknowledgements nobody applies
		now := c.shared.now
		if c.rx.receiver.AckedBare() {
			now = c.shared.link.Now()
		}
		c.rx.receiver.AckSent(now, kind.Sequenced())
	}
	c.Stats.TxFrames++
	return h
}

// completeHanded completes the unreliable sends whose frames the link has accepted.
func (t *txHalf) completeHanded() {
	for t.c.State == code.StateConnected && t.c.SQ.done != t.cursor.next {
		t.finishSend(t.c.SQ.at(t.c.SQ.done))
	}
}

// completeAcked completes the reliable sends that the peer has acknowledged. Reliable delivery: the
// peer's interface has received all frames of the message. Reliable reception: in addition,
// everything sent before is in the peer's memory, so the message was received in order. A read
// completes when its answer is complete.
func (t *txHalf) completeAcked() {
	if t.c.serves.base != t.c.serves.next {
		t.c.serves.retire()
	}
	una := t.sender.Una()
	for t.c.SQ.done != t.cursor.next {
		d := t.c.SQ.at(t.c.SQ.done)
		if !d.last.Less(una) && (t.c.terms.Reliability == reliability.ReliableReception || !t.sender.Acked(d.first, d.last)) || t.c.reads.unanswered(d) {
			return
		}
		t.finishSend(d)
	}
}

// finishSend completes d, the oldest descriptor on the send queue.
func (t *txHalf) finishSend(d *Descriptor) {
	c, status := t.c, d.opStatus()
	if d.HasImmediate {
		status |= code.StatusImmediate
	}
	c.Stats.SendsDone++
	if d.Op == code.OpRDMARead {
		c.Stats.RxBytes += uint64(d.total)
	} else {
		c.Stats.TxBytes += uint64(d.total)
	}
	c.SQ.completeOldest(c, d, status, d.total)
}

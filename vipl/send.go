package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// txCursor is where transmission of the send queue stands.
type txCursor struct {
	next   ethertype.Seq // descriptor to be transmitted next
	offset uint32        // bytes of it that have been
	msg    ethertype.Seq // number of the next message that spends a receive
}

// gatherBelow is how many frames may be in flight for a message to be sent at
// once. Above it, messages that do not fill a frame wait for company: until a
// frame is full, an acknowledgement comes or the caller polls.
const gatherBelow = 2

// pump sends what the window allows: first what must be sent again, then new
// frames. The caller has read the clock, and flushes the batch.
func (v *VI) pump() { v.transmit(false) }

// transmit is pump, or does the same for one frame that is lone.
func (v *VI) transmit(lone bool) {
	if !v.unsent() && v.tx.InFlight() == 0 {
		return
	}
	n := v.nic
	if !v.reliable {
		v.pumpLoose()
		return
	}
	for {
		if n.tx.full(n) { // looked at before Retransmit, which takes the frame as sent
			v.holdOn()
			return
		}
		f, seq, ok := v.tx.Retransmit(n.now)
		if !ok {
			break
		}
		v.stats.Retransmits++
		flags := ethertype.FlagRetry | ethertype.FlagAckNow
		if int(f.Size) > v.pathData {
			if f := *f; !v.resendLong(&f, seq, flags) {
				return
			}
		} else if !v.build(f, seq, flags) {
			return
		}
	}
	for room := v.tx.Room(n.now); room > 0 && v.unsent(); room-- {
		if n.tx.full(n) {
			v.holdOn()
			return
		}
		if v.enough() {
			return
		}
		f, ok := v.nextFrame()
		if !ok {
			return
		}
		seq, ackNow := v.tx.Push(n.now, f, lone)
		var flags ethertype.Flags
		long := int(f.Size) > v.pathData
		if ackNow || long && v.tx.AskEach(longAsk) {
			flags |= ethertype.FlagAckNow
		}
		if long && v.hole.fallen { // of a write that was begun in such frames
			v.sendPieces(&f, seq, flags)
		} else {
			v.build(&f, seq, flags)
		}
	}
}

// unsent reports whether there is anything that has not been sent once.
func (v *VI) unsent() bool { return v.cursor.next != v.sq.tail || v.serves.waiting > 0 }

// push sends what PostSend has queued.
//
// The clock is read first, except for a frame that will be alone under way: it
// goes out before the clock is read, since reading it takes a fiftieth of the
// frame's time.
func (v *VI) push() {
	n := v.nic
	lone := v.lone()
	if !lone && v.reliable {
		if v.hold() {
			if n.tx.n > 0 { // what hold has caught up with
				n.tx.flush(n)
			}
			return
		}
		n.now = n.link.Now()
	}
	if !lone || !v.pushShort() {
		v.transmit(lone)
	}
	if n.tx.n > 0 {
		n.tx.flush(n)
		n.catchUp()
		if lone {
			n.now = n.link.Now()
			v.tx.Stamp(n.now)
		}
		if n.tx.n > 0 { // what another VI owed
			n.tx.flush(n)
		}
	}
	v.arm() // also when the pace allows nothing now
}

// lone reports whether what is unsent is one frame, and nothing else will be
// in flight with it.
func (v *VI) lone() bool {
	c := &v.cursor
	if !v.reliable || c.next+1 != v.sq.tail || c.offset > 0 || v.serves.waiting > 0 {
		return false
	}
	if d := v.sq.at(c.next); int(d.total) > v.maxData-d.extension() {
		return false
	}
	return v.tx.InFlight() == 0 || v.nic.late.vi == v && v.nic.late.ack == v.tx.NextSeq()
}

// hold reports whether to wait for company, and notes the VI as holding.
func (v *VI) hold() bool {
	if v.tx.InFlight() < gatherBelow || !v.reliable {
		return false
	}
	if v.nic.catchUp(); v.tx.InFlight() < gatherBelow || v.cursor.next == v.sq.tail { // it may have sent all
		return false
	}
	if !v.part() {
		return false
	}
	v.holdOn()
	return true
}

// holdOn notes that v has something to send when the caller polls next.
func (v *VI) holdOn() {
	if !v.held {
		v.held = true
		v.nic.held = append(v.nic.held, v)
	}
}

// cut takes the next frame's worth off the send queue.
func (v *VI) cut() reliability.Sent {
	c := &v.cursor
	d := v.sq.at(c.next)
	if c.offset == 0 {
		if v.proven {
			v.turn()
		}
		if p := v.pack(); p.count > 1 {
			return v.cutPacked(&p)
		}
		if d.Op == OpRDMARead {
			return v.cutRead(d)
		}
		d.first, d.msg = v.tx.NextSeq(), c.msg
		if d.Op == OpSend || d.HasImmediate {
			c.msg++
		}
	}
	size := fragment(d.total-c.offset, v.maxData-d.extension(), d.Op == OpRDMAWrite)
	f := reliability.Sent{First: c.next, Offset: c.offset, Size: size, Count: 1}
	c.offset += size
	if c.offset == d.total {
		d.last = v.tx.NextSeq()
		c.next++
		c.offset = 0
	}
	return f
}

// fragment returns how many of left bytes go into a frame that has room bytes. Those of
// an RDMA write end at words, so that no word is in two frames.
func fragment(left uint32, room int, write bool) uint32 {
	size := uint32(room)
	if left <= size {
		return left
	}
	switch {
	case size >= alignFrom:
		size &^= alignTo - 1
	case write:
		size &^= wordSize - 1
	}
	return size
}

// Fragments of long messages in large frames begin at multiples of alignTo,
// because copies between memory that is aligned alike are faster.
const (
	alignFrom = 4096
	alignTo   = 64
)

// extension returns how many payload bytes precede the data in each of d's frames.
func (d *Descriptor) extension() int {
	switch {
	case d.Op != OpSend:
		return ethertype.RDMASize
	case d.HasImmediate:
		return ethertype.ImmediateSize
	}
	return 0
}

func (d *Descriptor) opStatus() Status {
	switch d.Op {
	case OpRDMAWrite:
		return StatusOpRDMAWrite
	case OpRDMARead:
		return StatusOpRDMARead
	}
	return StatusOpSend
}

// build makes the frame that f describes and adds it to the batch. It reports
// false when the link takes no more now, or the connection has ended.
func (v *VI) build(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	if f.Flags&sentAnswer != 0 {
		return v.buildAnswer(f, seq, flags)
	}
	n := v.nic
	slot := n.tx.slot(n)
	if slot == nil {
		return false
	}
	d := v.sq.at(f.First)
	h := v.header(ethertype.KindData)
	h.Flags |= flags
	h.Seq, h.Msg, h.Count = seq, d.msg, f.Count
	if f.Count > 1 {
		h.Flags |= ethertype.FlagPacked
		h.Size = uint16(f.Size)
		h.Put(slot)
		return v.fillPacked(slot, f)
	}
	at := ethertype.HeaderSize
	switch {
	case d.Op != OpSend:
		h.Kind = ethertype.KindRDMAWrite
		if d.Op == OpRDMARead {
			h.Kind = ethertype.KindRDMARead
		} else if d.Unordered {
			h.Flags |= ethertype.FlagUnordered
		}
		ethertype.RDMA{Addr: d.Remote.Addr, Handle: uint32(d.Remote.Handle), Immediate: d.Immediate}.Put(slot[at:])
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
	return v.fill(slot, at, d, f)
}

// fill adds the frame's data: copied behind what the slot holds when short,
// else by reference. It reports false when they are not there any more.
func (v *VI) fill(slot []byte, at int, d *Descriptor, f *reliability.Sent) bool {
	n := v.nic
	if f.Size <= copyMax && int(f.Size) <= len(slot)-at {
		if !copyOut(slot[at:], d.Segs, f.Offset, f.Size) {
			return v.altered()
		}
		n.tx.add(slot[:at+int(f.Size)], nil)
		return true
	}
	body, ok := appendParts(n.tx.body(), d.Segs, f.Offset, f.Size)
	if !ok {
		return v.altered()
	}
	n.tx.add(slot[:at], body)
	return true
}

// altered ends the connection because the segments of a send hold less than when
// it was posted. The send's status says so when it is flushed. It returns false,
// for callers that have made no frame.
func (v *VI) altered() bool {
	v.nic.catchUp() // which may come back here
	if v.state == StateConnected {
		v.fail(reasonAltered)
	}
	return false
}

// appendParts appends to body what lies in size bytes from offset on of the
// concatenated segments. It reports whether that is there.
func appendParts(body [][]byte, segs []Segment, offset, size uint32) (parts [][]byte, ok bool) {
	for i := 0; size > 0 && i < len(segs); i++ {
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		part = part[offset:]
		part = part[:min(uint32(len(part)), size)]
		body = append(body, part)
		size -= uint32(len(part))
		offset = 0
	}
	return body, size == 0
}

// copyOut copies size bytes from offset on of the concatenated segments. It
// reports whether they are there.
func copyOut(dst []byte, segs []Segment, offset, size uint32) bool {
	done := 0
	for i := 0; uint32(done) < size && i < len(segs); i++ {
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		done += copy(dst[done:size], part[offset:])
		offset = 0
	}
	return uint32(done) == size
}

// header returns a header to the peer with everything filled in that all
// frames of the connection share, acknowledgement included, and the number of the
// next frame that occupies one. It is the VI's own, kept so that most fields need not
// be written again for each frame.
func (v *VI) header(kind ethertype.Kind) *ethertype.Header {
	h := &v.out
	h.Kind, h.Flags = kind, v.flags
	h.Seq, h.Msg, h.Offset, h.Length, h.Size, h.Count = v.tx.NextSeq(), 0, 0, 0, 0, 0
	if v.reliable {
		h.Ack, h.Sack = v.rx.Ack()
		v.rx.AckSent()
	}
	v.stats.TxFrames++
	return h
}

// pumpLoose sends everything: the unreliable level has no window. A send has
// completed when the link has taken its frames.
func (v *VI) pumpLoose() {
	n := v.nic
	for v.cursor.next != v.sq.tail {
		if n.tx.full(n) {
			v.holdOn()
			break
		}
		if !v.txQueued {
			v.txQueued = true
			n.tx.unsent = append(n.tx.unsent, v)
		}
		f := v.cut()
		v.build(&f, v.loose.next, 0)
		v.loose.next++
	}
}

// completeHanded completes the unreliable sends whose frames the link has taken.
func (v *VI) completeHanded() {
	for v.state == StateConnected && v.sq.done != v.cursor.next {
		v.finishSend()
	}
}

// completeAcked completes the reliable sends that the peer has acknowledged.
// Reliable delivery: the peer's interface has taken all frames of the message.
// Reliable reception: besides, everything sent before lies in the peer's
// memory too, so that the message has been received in its turn. A read is
// complete when its answer is.
func (v *VI) completeAcked() {
	if v.serves.base != v.serves.next {
		v.retire()
	}
	una := v.tx.Una()
	for v.sq.done != v.cursor.next {
		d := v.sq.at(v.sq.done)
		if !d.last.Less(una) && (v.attr.Reliability == reliability.ReliableReception || !v.tx.Acked(d.first, d.last)) || v.unanswered(d) {
			return
		}
		v.finishSend()
	}
}

func (v *VI) finishSend() {
	d := v.sq.at(v.sq.done)
	status := d.opStatus()
	if d.HasImmediate {
		status |= StatusImmediate
	}
	v.stats.SendsDone++
	if d.Op == OpRDMARead {
		v.stats.RxBytes += uint64(d.total)
	} else {
		v.stats.TxBytes += uint64(d.total)
	}
	v.sq.complete(v, status, d.total)
}

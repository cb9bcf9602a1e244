package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// rxCursor maps message numbers to receives: message m of the connection goes
// into receive base+m. That is why a frame can be placed however early it
// comes, and why there is no reorder buffer.
type rxCursor struct {
	base ethertype.Seq
}

// outcome is what became of a frame's content.
type outcome uint8

const (
	placed   outcome = iota // it lies where it belongs
	deferred                // it cannot be placed yet; its sender will send it again
	fatal                   // in order, and impossible: the connection ends
)

// Receive receives a frame whose tag and sender are those of the peer, while Connected. alone says
// that the poll has found no other frame. Receive returns a long frame if this was its last missing
// piece, else nil.
func (c *Conn) Receive(h *ethertype.Header, payload []byte, alone bool) (whole []byte) {
	c.shared.touch(c)
	c.rx.applyDeferredAck()
	c.Stats.RxFrames++
	if !c.Genuine(h) && !(h.Kind == ethertype.KindDisconnect && c.Plausible(h)) {
		c.Drop(c.forgery(h))
		return nil
	}
	c.heard, c.probes = c.shared.now, 0
	if h.Flags&ethertype.FlagTakesLong != 0 && c.Path.Long && !c.Path.UsesLong() {
		c.Path.UseLong()
	}
	switch h.Kind {
	case ethertype.KindAck:
		c.rx.receiveAck(h, payload)
	case ethertype.KindDisconnect:
		c.receiveDisconnect(h, payload)
	case ethertype.KindPiece:
		return c.rx.receivePiece(h, payload)
	default:
		c.rx.receiveData(h, payload, alone)
	}
	return nil
}

// receiveData handles the sequenced kinds.
//
// On the reliable levels a frame that arrives ahead of others and cannot be
// placed is dropped as if it had been lost: whether it really is an error is
// only judged when its turn comes, so that errors hit in the order of sending.
func (r *rxHalf) receiveData(h *ethertype.Header, payload []byte, alone bool) {
	if !r.c.Reliable {
		r.c.loose.receive(h, payload)
		return
	}
	sh := r.c.shared
	inOrder := h.Seq == r.receiver.Next()
	late := alone && inOrder && h.Kind != ethertype.KindRDMARead && h.Kind != ethertype.KindReadData && h.Sack == 0 && r.mayDeferAck(h.Ack)
	if late {
		r.deferAck(h.Ack)
	} else if !r.c.tx.applyAck(h, nil) {
		return
	}
	switch r.receiver.Check(h.Seq) {
	case reliability.Duplicate:
		r.c.Drop(drops.Duplicate)
		r.receiver.Duplicate()
	case reliability.Ahead:
		r.c.Drop(drops.Ahead)
	case reliability.Accept:
		result, why := r.place(h, payload)
		switch {
		case result == placed:
			r.receiver.Accept(sh.now, h.Seq, h.Flags&ethertype.FlagAckNow != 0, h.Flags&ethertype.FlagLast != 0)
			if inOrder {
				r.completeReceived()
				if alone {
					r.c.predict(h)
				}
			}
			if late && r.receiver.AckDue(sh.now) {
				sh.FinishReceives()
			}
		case inOrder && result == fatal:
			r.completeReceived()
			r.c.Drop(drops.Fatal)
			r.c.fail(why)
		case result == deferred:
			r.c.Drop(drops.Ahead)
		default:
			r.c.Drop(drops.NoReceive)
		}
	}
}

// applyAck hands the acknowledgement that every frame carries to the sender's
// machine and completes the sends that it covers. A frame for which it reports false is
// not one of this connection and is dropped whole.
func (t *txHalf) applyAck(h *ethertype.Header, more []byte) bool {
	progress, valid := t.sender.OnAck(t.c.shared.now, h.Ack, h.Sack, more)
	if !valid {
		t.c.Drop(drops.Ack)
		return false
	}
	if progress {
		t.completeAcked()
	}
	return true
}

// receiveAck handles KindAck: an acknowledgement on its own, or a keepalive
// probe when it asks for one.
func (r *rxHalf) receiveAck(h *ethertype.Header, payload []byte) {
	if !r.c.Reliable {
		r.c.Drop(drops.Format)
		return
	}
	// The payload may lie in memory that the peer can still write to, and is
	// looked at twice.
	var more [reliability.MaxSack]byte
	if len(payload) <= len(more) {
		payload = more[:copy(more[:], payload)]
	}
	if r.c.tx.applyAck(h, payload) && h.Flags&ethertype.FlagAckNow != 0 {
		r.c.SendAck(0)
	}
}

// SendAck sends an acknowledgement on its own.
func (c *Conn) SendAck(flags ethertype.Flags) {
	sh := c.shared
	slot := sh.slot()
	if slot == nil {
		return
	}
	h := c.header(ethertype.KindAck)
	h.Flags |= flags
	more := c.rx.receiver.AppendSack(slot[ethertype.HeaderSize:ethertype.HeaderSize])
	h.Size = uint16(len(more))
	h.Put(slot)
	c.Path.addShort(slot[:ethertype.HeaderSize+len(more)])
	c.Stats.BareAcks++
}

// place copies the frame's data to where they belong.
func (r *rxHalf) place(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	switch {
	case h.Kind != ethertype.KindData:
		return r.placeOneSided(h, payload)
	case h.Flags&ethertype.FlagPacked != 0:
		return r.placePacked(h, payload)
	}
	d := r.receiveFor(h.Msg)
	if d == nil {
		return fatal, code.ReasonNoReceive
	}
	if h.Flags&ethertype.FlagImmediate != 0 {
		d.Immediate, payload = ethertype.ParseImmediate(payload)
		d.HasImmediate = true
	} else {
		d.HasImmediate = false
	}
	if !d.begun {
		if h.Length > d.total {
			return fatal, code.ReasonTooLong
		}
		d.begun, d.length = true, h.Length
	}
	if h.Length != d.length || d.oneSide {
		return fatal, code.ReasonProtocol
	}
	if o := r.c.shared.copyIn(d.Segs, h.Offset, payload); o != placed { // if fatal, altered since it was posted
		return o, code.ReasonTooLong
	}
	d.recordFragment(h, len(payload))
	return placed, 0
}

func (r *rxHalf) placeOneSided(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	switch h.Kind {
	case ethertype.KindRDMARead:
		return r.c.serves.placeRequest(h, payload)
	case ethertype.KindReadData:
		return r.c.reads.placeRead(h, payload)
	}
	return r.placeRDMA(h, payload)
}

// receiveFor returns the posted receive that message m goes to.
func (r *rxHalf) receiveFor(m ethertype.Seq) *Descriptor {
	if i := r.msgIn.base + m; r.c.RQ.posted(i) {
		return r.c.RQ.at(i)
	}
	return nil
}

// recordFragment records that a fragment of the message has come. Each is noted once,
// because the sequence number was new.
func (d *Descriptor) recordFragment(h *ethertype.Header, size int) {
	d.got += uint32(size)
	if h.Flags&ethertype.FlagLast != 0 {
		d.final, d.ended = h.Seq, true
	}
}

// placePacked places the messages of a packed frame. Placing one twice, after
// a later one did not fit, does no harm. In its turn a frame brings the message
// of the oldest receive: a peer that says otherwise has left one out.
func (r *rxHalf) placePacked(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	if h.Seq == r.receiver.Next() && r.msgIn.base+h.Msg != r.c.RQ.done {
		return fatal, code.ReasonProtocol
	}
	for m := h.Msg; m != h.Msg+ethertype.Seq(h.Count); m++ {
		record, data, rest, ok := ethertype.NextRecord(payload)
		if !ok {
			return fatal, code.ReasonProtocol
		}
		payload = rest
		d := r.receiveFor(m)
		switch {
		case d == nil:
			return r.partly(h, m), code.ReasonNoReceive
		case uint32(len(data)) > d.total:
			return r.partly(h, m), code.ReasonTooLong
		case d.begun && d.final != h.Seq:
			return fatal, code.ReasonProtocol
		case !memory.Scatter(d.Segs, 0, data): // altered since it was posted
			return r.partly(h, m), code.ReasonTooLong
		}
		d.rxState = rxState{length: uint32(len(data)), got: uint32(len(data)), final: h.Seq, begun: true, ended: true}
		d.Immediate, d.HasImmediate = record.Immediate, record.HasImm
	}
	return placed, 0
}

// partly is the outcome of a packed frame whose message m has no place: the
// messages before it, which are those of the oldest receives, count as received
// if the frame's turn has come.
func (r *rxHalf) partly(h *ethertype.Header, m ethertype.Seq) outcome {
	if h.Seq == r.receiver.Next() {
		for i := h.Msg; i != m; i++ {
			r.finishReceive(r.receiveFor(i))
		}
	}
	return fatal
}

// placeRDMA writes a fragment to the region that it names, after checking
// everything the peer says: region, bounds, tag and rights.
func (r *rxHalf) placeRDMA(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	where, data := ethertype.ParseRDMA(payload)
	var d *Descriptor
	if h.Flags&ethertype.FlagImmediate != 0 {
		if d = r.receiveFor(h.Msg); d == nil {
			return fatal, code.ReasonNoReceive
		}
		if d.begun && (!d.oneSide || d.length != h.Length) {
			return fatal, code.ReasonProtocol
		}
	}
	if h.Flags&ethertype.FlagUnordered == 0 && r.overtakes(h) {
		return deferred, 0
	}
	if len(data) > 0 {
		dst := r.target(where, h.Length)
		if dst == nil {
			if d != nil && h.Seq == r.receiver.Next() {
				d.oneSide = true // for blameReceive
			}
			return fatal, code.ReasonRDMA
		}
		if !r.c.shared.copyInWords(dst[h.Offset:][:len(data)], data) {
			return deferred, 0
		}
		r.wrote()
		r.c.Stats.RDMABytes += uint64(len(data))
	}
	if d != nil {
		d.begun, d.oneSide, d.length = true, true, h.Length
		d.Immediate, d.HasImmediate = where.Immediate, true
		d.recordFragment(h, len(data))
	}
	return placed, 0
}

// overtakes reports whether a fragment of an RDMA write has come before frames
// of earlier messages. It waits for them: one of them might be a write to the
// same memory, which would then be done in the wrong order.
func (r *rxHalf) overtakes(h *ethertype.Header) bool {
	size := r.c.Path.writeSize()
	if r.c.Path.Long && h.Flags&ethertype.FlagLast == 0 { // the last may be shorter; to take it for longer than it is does no harm
		size = max(uint32(h.Size), ethertype.RDMASize+1) - ethertype.RDMASize
	}
	index := h.Offset / size
	return r.receiver.Next().Less(h.Seq - ethertype.Seq(index))
}

// target finds the memory of an incoming RDMA write of size bytes in all; nil
// when any part of it is forbidden.
func (r *rxHalf) target(where ethertype.RDMA, size uint32) []byte {
	if !r.c.terms.EnableRDMAWrite {
		return nil
	}
	return r.c.shared.Mem.Target(where.Addr, size, memory.Handle(where.Handle), r.c.terms.Ptag)
}

// completeReceived completes the receives whose messages are whole: all of a
// message's frames, and all before them, have come.
func (r *rxHalf) completeReceived() {
	if r.c.reads.outstanding() {
		r.c.reads.completeReads()
	}
	next := r.receiver.Next()
	for r.c.RQ.done != r.c.RQ.tail {
		d := r.c.RQ.at(r.c.RQ.done)
		if !d.ended || !d.final.Less(next) {
			return
		}
		if d.got != d.length {
			r.c.fail(code.ReasonProtocol)
			return
		}
		r.finishReceive(d)
	}
}

// finishReceive completes d, the oldest posted receive, whose message is whole.
func (r *rxHalf) finishReceive(d *Descriptor) {
	c, status := r.c, code.StatusOpReceive
	if d.oneSide {
		status = code.StatusOpRemoteRDMAWrite
	}
	if d.HasImmediate {
		status |= code.StatusImmediate
	}
	c.Stats.Receives++
	c.Stats.RxBytes += uint64(d.length)
	c.RQ.completeOldest(c, d, status, d.length)
}

// wrote has those look again who wait for memory to change, which the peer has done.
func (r *rxHalf) wrote() {
	if q := r.c.RQ.cq; q != nil && q.attended {
		q.Gate.Open(r.c.shared.eng)
	}
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// rxCursor maps message numbers to receives: message m of the connection goes into receive base+m.
// A frame can therefore be placed however early it arrives, without a reorder buffer.
type rxCursor struct {
	base ethertype.Seq
}

// outcome is the result of placing a frame's contents.
type outcome uint8

const (
	placed   outcome = iota // the contents are at their destination
	deferred                // they cannot be placed yet; the sender will retransmit
	fatal                   // in order, and invalid: the connection ends
)

// Receive handles a frame with the peer's tag and sender address, while Connected. alone reports
// that it is the only frame of the poll. If the frame completes a long frame in pieces, Receive
// returns that frame, otherwise nil.
func (c *Conn) Receive(h *ethertype.Header, payload []byte, alone bool) (whole []byte) {
	c.shared.touch(c)
	c.rx.applyDeferredAck()
	c.Stats.RxFrames++
	if !c.Genuine(h) && !(h.Kind == ethertype.KindDisconnect && c.Plausible(h)) {
		c.Drop(c.forgery(h))
		return nil
	}
	c.heard, c.probes = c.shared.now, 0
	if h.Flags&ethertype.FlagTakesLong != 0 && c.Path.Long {
		c.Path.heardLong(h)
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
// On the reliable levels a frame that arrives early and cannot be placed is dropped as if it had
// been lost. Whether it is an error is only decided when its turn comes, so that errors are
// reported in the order of sending.
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

// applyAck passes the acknowledgement that every frame carries to the sender, and completes the
// sends that it covers. If it returns false, the frame does not belong to this connection and must
// be dropped.
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

// receiveAck handles KindAck: a separate acknowledgement, or a keep-alive probe if it requests one.
func (r *rxHalf) receiveAck(h *ethertype.Header, payload []byte) {
	if !r.c.Reliable {
		r.c.Drop(drops.Format)
		return
	}
	// The payload may be in memory that the peer can still write to, and is read twice.
	var more [reliability.MaxSack]byte
	if len(payload) <= len(more) {
		payload = more[:copy(more[:], payload)]
	}
	if r.c.tx.applyAck(h, payload) && h.Flags&ethertype.FlagAckNow != 0 {
		r.c.SendAck(0)
	}
}

// SendAck sends a separate acknowledgement.
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

// place copies the frame's data to their destination.
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
	if o := r.c.copyIn(d.Segs(), h.Offset, payload); o != placed { // if fatal, the descriptor was altered while it was posted
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

// receiveFor returns the posted receive of message m.
func (r *rxHalf) receiveFor(m ethertype.Seq) *Descriptor {
	if i := r.msgIn.base + m; r.c.RQ.posted(i) {
		return r.c.RQ.at(i)
	}
	return nil
}

// recordFragment records the arrival of a fragment of the message. Each fragment is recorded once,
// because its sequence number was new.
func (d *Descriptor) recordFragment(h *ethertype.Header, size int) {
	d.got += uint32(size)
	if h.Flags&ethertype.FlagLast != 0 {
		d.final, d.ended = h.Seq, true
	}
}

// placePacked places the messages of a packed frame. Placing a message again, after a later one did
// not fit, is harmless. A frame in order must begin with the message of the oldest receive;
// otherwise the peer has skipped a message.
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
		d, begin := r.receiveFor(m), r.c.beginCopy(data)
		switch {
		case d == nil:
			return r.partly(h, m), code.ReasonNoReceive
		case uint32(len(data)) > d.total:
			return r.partly(h, m), code.ReasonTooLong
		case d.begun && d.final != h.Seq:
			return fatal, code.ReasonProtocol
		case !memory.Scatter(d.Segs(), 0, data): // altered since it was posted
			return r.partly(h, m), code.ReasonTooLong
		}
		r.c.endCopy(data, begin)
		d.rxState = rxState{length: uint32(len(data)), got: uint32(len(data)), final: h.Seq, begun: true, ended: true}
		d.Immediate, d.HasImmediate = record.Immediate, record.HasImm
	}
	return placed, 0
}

// partly returns the outcome of a packed frame whose message m cannot be placed. If the frame is in
// order, the messages before m, which go to the oldest receives, count as received.
func (r *rxHalf) partly(h *ethertype.Header, m ethertype.Seq) outcome {
	if h.Seq == r.receiver.Next() {
		for i := h.Msg; i != m; i++ {
			r.finishReceive(r.receiveFor(i))
		}
	}
	return fatal
}

// placeRDMA writes a fragment to the region that it names, after it has checked region, bounds, tag
// and rights.
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
		var last *lastWord
		if h.Flags&(ethertype.FlagLast|ethertype.FlagUnordered) == ethertype.FlagLast && r.receiver.Next().Less(h.Seq) {
			if last = &r.last; last.waits { // of a peer that breaks the protocol: only one write at a time is incomplete
				return deferred, 0
			}
		}
		if !r.c.copyInWords(dst[h.Offset:][:len(data)], data, last) {
			return deferred, 0
		}
		if last != nil {
			last.waits, last.seq = true, h.Seq
			last.where = ethertype.RDMA{Addr: where.Addr + uint64(h.Length) - uint64(last.size), Handle: where.Handle}
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

// lastWord is the end of an RDMA write whose last fragment has arrived before others. A program takes the
// last word of a write for the sign that all of it is there, so the word is stored behind the others.
type lastWord struct {
	waits bool
	seq   ethertype.Seq  // of the fragment
	where ethertype.RDMA // of the word
	size  int
	bytes [latch.MaxEdges]byte
}

// storeLast stores the last word of an RDMA write, after everything else of the write has
// arrived.
func (r *rxHalf) storeLast() {
	w := &r.last
	if !w.seq.Less(r.receiver.Next()) {
		return
	}
	w.waits = false
	if dst := r.target(w.where, uint32(w.size)); dst != nil { // the memory may have been deregistered
		latch.StoreWords(dst, w.bytes[:w.size])
		r.wrote()
	}
}

// overtakes reports whether a fragment of an RDMA write has arrived before frames of earlier
// messages. It must wait for them: one of them may write to the same memory, and the order would
// change.
func (r *rxHalf) overtakes(h *ethertype.Header) bool {
	size := r.c.Path.writeSize()
	if r.c.Path.Long && h.Flags&ethertype.FlagLast == 0 { // the last may be shorter; assuming full length is harmless
		size = max(uint32(h.Size), ethertype.RDMASize+1) - ethertype.RDMASize
	}
	index := (h.Offset + firstShorter) / size
	return r.receiver.Next().Less(h.Seq - ethertype.Seq(index))
}

// target returns the destination of an RDMA write of size bytes in total, or nil if any part of it
// is forbidden.
func (r *rxHalf) target(where ethertype.RDMA, size uint32) []byte {
	if !r.c.terms.EnableRDMAWrite {
		return nil
	}
	return r.c.shared.Mem.Target(where.Addr, size, memory.Handle(where.Handle), r.c.terms.Ptag)
}

// completeReceived completes the receives whose messages are complete: all frames of the message,
// and all before them, have arrived.
func (r *rxHalf) completeReceived() {
	if r.last.waits {
		r.storeLast()
	}
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

// finishReceive completes d, the oldest posted receive, whose message is complete.
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

// wrote wakes goroutines that wait for the peer to change memory.
func (r *rxHalf) wrote() {
	if q := r.c.RQ.cq; q != nil && q.attended {
		q.Gate.Open(r.c.shared.eng)
	}
}

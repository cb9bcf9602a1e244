package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
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

// receiveData handles the sequenced kinds.
//
// On the reliable levels a frame that arrives ahead of others and cannot be
// placed is dropped as if it had been lost: whether it really is an error is
// only judged when its turn comes, so that errors hit in the order of sending.
func (v *VI) receiveData(h *ethertype.Header, payload []byte) {
	if !v.reliable {
		v.receiveLoose(h, payload)
		return
	}
	n := v.nic
	inOrder := h.Seq == v.rx.Next()
	late := inOrder && v.defers(h)
	if !late && !v.takeAck(h, nil) {
		return
	}
	switch v.rx.Check(h.Seq) {
	case reliability.Duplicate:
		v.drop(DropDuplicate)
		v.rx.Duplicate()
	case reliability.Ahead:
		v.drop(DropAhead)
	case reliability.Accept:
		result, why := v.place(h, payload)
		switch {
		case result == placed:
			v.rx.Accept(n.now, h.Seq, h.Flags&ethertype.FlagAckNow != 0)
			if inOrder {
				v.completeReceived()
				if n.lone {
					v.remember(h)
				}
			}
			if late && v.rx.AckDue(n.now) {
				n.catchUp()
			}
		case inOrder && result == fatal:
			v.completeReceived()
			v.drop(DropFatal)
			v.fail(why)
		case result == deferred:
			v.drop(DropAhead)
		default:
			v.drop(DropNoReceive)
		}
	}
}

// takeAck hands the acknowledgement that every frame carries to the sender's
// machine and completes what it covers. A frame for which it reports false is
// not one of this connection and is dropped whole.
func (v *VI) takeAck(h *ethertype.Header, more []byte) bool {
	progress, valid := v.tx.OnAck(v.nic.now, h.Ack, h.Sack, more)
	if !valid {
		v.drop(DropAck)
		return false
	}
	if progress {
		v.completeAcked()
	}
	return true
}

// receiveAck handles KindAck: an acknowledgement on its own, or a keepalive
// probe when it asks for one.
func (v *VI) receiveAck(h *ethertype.Header, payload []byte) {
	if !v.reliable {
		v.drop(DropFormat)
		return
	}
	// The payload may lie in memory that the peer can still write to, and is
	// looked at twice.
	var more [reliability.MaxSack]byte
	if len(payload) <= len(more) {
		payload = more[:copy(more[:], payload)]
	}
	if v.takeAck(h, payload) && h.Flags&ethertype.FlagAckNow != 0 {
		v.sendAck(0)
	}
}

// sendAck sends an acknowledgement on its own.
func (v *VI) sendAck(flags ethertype.Flags) {
	n := v.nic
	slot := n.tx.slot(n)
	if slot == nil {
		return
	}
	h := v.header(ethertype.KindAck)
	h.Flags |= flags
	more := v.rx.AppendSack(slot[ethertype.HeaderSize:ethertype.HeaderSize])
	h.Size = uint16(len(more))
	h.Put(slot)
	n.tx.add(slot[:ethertype.HeaderSize+len(more)], nil)
	v.stats.BareAcks++
}

func (v *VI) ackIfDue() {
	if v.reliable && v.rx.AckDue(v.nic.now) {
		v.sendAck(0)
	}
}

// place copies the frame's data to where they belong.
func (v *VI) place(h *ethertype.Header, payload []byte) (outcome, reason) {
	switch {
	case h.Kind != ethertype.KindData:
		return v.placeOneSided(h, payload)
	case h.Flags&ethertype.FlagPacked != 0:
		return v.placePacked(h, payload)
	}
	d := v.receiveFor(h.Msg)
	if d == nil {
		return fatal, reasonNoReceive
	}
	if h.Flags&ethertype.FlagImmediate != 0 {
		d.Immediate, payload = ethertype.ParseImmediate(payload)
		d.HasImmediate = true
	} else {
		d.HasImmediate = false
	}
	if !d.begun {
		if h.Length > d.total {
			return fatal, reasonTooLong
		}
		d.begun, d.length = true, h.Length
	}
	if h.Length != d.length || d.oneSide {
		return fatal, reasonProtocol
	}
	if o := v.nic.put(d.Segs, h.Offset, payload); o != placed { // if fatal, altered since it was posted
		return o, reasonTooLong
	}
	d.note(h, len(payload))
	return placed, 0
}

func (v *VI) placeOneSided(h *ethertype.Header, payload []byte) (outcome, reason) {
	switch h.Kind {
	case ethertype.KindRDMARead:
		return v.placeRequest(h, payload)
	case ethertype.KindReadData:
		return v.placeRead(h, payload)
	}
	return v.placeRDMA(h, payload)
}

// receiveFor returns the posted receive that message m goes to.
func (v *VI) receiveFor(m ethertype.Seq) *Descriptor {
	if i := v.msgIn.base + m; v.rq.posted(i) {
		return v.rq.at(i)
	}
	return nil
}

// note records that a fragment of the message has come. Each is noted once,
// because the sequence number was new.
func (d *Descriptor) note(h *ethertype.Header, size int) {
	d.got += uint32(size)
	if h.Flags&ethertype.FlagLast != 0 {
		d.final, d.ended = h.Seq, true
	}
}

// scatter copies data to offset in the concatenation of segs. It reports whether
// there is room; they were long enough when they were posted.
func scatter(segs []Segment, offset uint32, data []byte) bool {
	for i := 0; len(data) > 0; i++ {
		if i == len(segs) {
			return false
		}
		part := segs[i].Data
		if uint32(len(part)) <= offset {
			offset -= uint32(len(part))
			continue
		}
		data = data[copy(part[offset:], data):]
		offset = 0
	}
	return true
}

// placePacked places the messages of a packed frame. Placing one twice, after
// a later one did not fit, does no harm. In its turn a frame brings the message
// of the oldest receive: a peer that says otherwise has left one out.
func (v *VI) placePacked(h *ethertype.Header, payload []byte) (outcome, reason) {
	if h.Seq == v.rx.Next() && v.msgIn.base+h.Msg != v.rq.done {
		return fatal, reasonProtocol
	}
	for m := h.Msg; m != h.Msg+ethertype.Seq(h.Count); m++ {
		r, data, rest, ok := ethertype.NextRecord(payload)
		if !ok {
			return fatal, reasonProtocol
		}
		payload = rest
		d := v.receiveFor(m)
		switch {
		case d == nil:
			return v.partly(h, m), reasonNoReceive
		case uint32(len(data)) > d.total:
			return v.partly(h, m), reasonTooLong
		case d.begun && d.final != h.Seq:
			return fatal, reasonProtocol
		case !scatter(d.Segs, 0, data): // altered since it was posted
			return v.partly(h, m), reasonTooLong
		}
		d.rxState = rxState{length: uint32(len(data)), got: uint32(len(data)), final: h.Seq, begun: true, ended: true}
		d.Immediate, d.HasImmediate = r.Immediate, r.HasImm
	}
	return placed, 0
}

// partly is the outcome of a packed frame whose message m has no place: the
// messages before it, which are those of the oldest receives, count as received
// if the frame's turn has come.
func (v *VI) partly(h *ethertype.Header, m ethertype.Seq) outcome {
	if h.Seq == v.rx.Next() {
		for i := h.Msg; i != m; i++ {
			v.finishReceive(v.receiveFor(i))
		}
	}
	return fatal
}

// placeRDMA writes a fragment to the region that it names, after checking
// everything the peer says: region, bounds, tag and rights.
func (v *VI) placeRDMA(h *ethertype.Header, payload []byte) (outcome, reason) {
	r, data := ethertype.ParseRDMA(payload)
	var d *Descriptor
	if h.Flags&ethertype.FlagImmediate != 0 {
		if d = v.receiveFor(h.Msg); d == nil {
			return fatal, reasonNoReceive
		}
		if d.begun && (!d.oneSide || d.length != h.Length) {
			return fatal, reasonProtocol
		}
	}
	if h.Flags&ethertype.FlagUnordered == 0 && v.overtakes(h) {
		return deferred, 0
	}
	if len(data) > 0 {
		dst := v.target(r, h.Length)
		if dst == nil {
			if d != nil && h.Seq == v.rx.Next() {
				d.oneSide = true // for blameReceive
			}
			return fatal, reasonRDMA
		}
		if !v.nic.putWords(dst[h.Offset:][:len(data)], data) {
			return deferred, 0
		}
		v.wrote()
		v.stats.RDMABytes += uint64(len(data))
	}
	if d != nil {
		d.begun, d.oneSide, d.length = true, true, h.Length
		d.Immediate, d.HasImmediate = r.Immediate, true
		d.note(h, len(data))
	}
	return placed, 0
}

// overtakes reports whether a fragment of an RDMA write has come before frames
// of earlier messages. It waits for them: one of them might be a write to the
// same memory, which would then be done in the wrong order.
func (v *VI) overtakes(h *ethertype.Header) bool {
	size := v.writeSize()
	if v.long && h.Flags&ethertype.FlagLast == 0 { // the last may be shorter; to take it for longer than it is does no harm
		size = max(uint32(h.Size), ethertype.RDMASize+1) - ethertype.RDMASize
	}
	index := h.Offset / size
	return v.rx.Next().Less(h.Seq - ethertype.Seq(index))
}

// target finds the memory of an incoming RDMA write of size bytes in all; nil
// when any part of it is forbidden.
func (v *VI) target(r ethertype.RDMA, size uint32) []byte {
	if !v.attr.EnableRDMAWrite {
		return nil
	}
	return v.nic.mem.Target(r.Addr, size, MemHandle(r.Handle), v.attr.Ptag)
}

// completeReceived completes the receives whose messages are whole: all of a
// message's frames, and all before them, have come.
func (v *VI) completeReceived() {
	if v.reads.open() {
		v.completeReads()
	}
	next := v.rx.Next()
	for v.rq.done != v.rq.tail {
		d := v.rq.at(v.rq.done)
		if !d.ended || !d.final.Less(next) {
			return
		}
		if d.got != d.length {
			v.fail(reasonProtocol)
			return
		}
		v.finishReceive(d)
	}
}

func (v *VI) finishReceive(d *Descriptor) {
	status := StatusOpReceive
	if d.oneSide {
		status = StatusOpRemoteRDMAWrite
	}
	if d.HasImmediate {
		status |= StatusImmediate
	}
	v.stats.Receives++
	v.stats.RxBytes += uint64(d.length)
	v.rq.complete(v, status, d.length)
}

package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// looseRx is the receiving side of the unreliable level: at most once, in
// order, gaps stay. One message is assembled at a time; when a newer one
// begins first, the older is given up and its receive taken over.
type looseRx struct {
	filter reliability.Filter
	next   ethertype.Seq // of our own frames: the level has no Sender
	msg    ethertype.Seq // the message being assembled, or the last one judged
	at     ethertype.Seq // the frame that said so
	open   bool          // msg is being assembled into the oldest posted receive
	begun  bool          // any message has been seen
	write  looseWrite    // the RDMA write under way
}

// receiveLoose handles data on the unreliable level. Nothing breaks the
// connection here: what cannot be placed is dropped and counted.
func (v *VI) receiveLoose(h *ethertype.Header, payload []byte) {
	if h.Kind != ethertype.KindData && h.Kind != ethertype.KindRDMAWrite {
		v.drop(DropFormat)
		return
	}
	if !v.loose.admit(v, h) {
		return
	}
	v.loose.write.note(v, h)
	switch {
	case h.Kind == ethertype.KindRDMAWrite:
		v.looseRDMA(h, payload)
	case h.Flags&ethertype.FlagPacked != 0:
		for m := h.Msg; m != h.Msg+ethertype.Seq(h.Count); m++ {
			r, data, rest, ok := ethertype.NextRecord(payload)
			if !ok {
				v.drop(DropFormat)
				return
			}
			payload = rest
			one := *h
			one.Msg, one.Offset, one.Length = m, 0, uint32(len(data))
			v.looseFragment(&one, data, r.Immediate, r.HasImm)
		}
	case h.Flags&ethertype.FlagImmediate != 0:
		imm, data := ethertype.ParseImmediate(payload)
		v.looseFragment(h, data, imm, true)
	default:
		v.looseFragment(h, payload, 0, false)
	}
}

// admit reports whether the filter takes a frame. If it has moved far, what is known
// of messages and writes was before a long gap, or wrong.
func (l *looseRx) admit(v *VI, h *ethertype.Header) bool {
	switch verdict := l.filter.Check(h.Seq); {
	case verdict == reliability.Accept:
		l.filter.Accept(h.Seq)
	case l.filter.Refuse(h.Seq):
		v.looseAbandon()
		l.begun = false
		l.write.abandon(v, l.write.first+1)
		l.write = looseWrite{}
	case verdict == reliability.Ahead:
		v.drop(DropAhead)
		return false
	default:
		v.drop(DropDuplicate)
		return false
	}
	return true
}

// looseAbandon gives up the message that is being assembled.
func (v *VI) looseAbandon() {
	if v.loose.open {
		v.drop(DropIncomplete)
		v.rq.at(v.rq.done).rxState = rxState{}
	}
	v.loose.open = false
}

// looseOpen makes message h.Msg the one being assembled and returns its
// receive, or nil when the frame is to be dropped. That the number of a message is
// lower in a later frame no honest peer says: then the one before was wrong, and must
// not make all later ones late.
func (v *VI) looseOpen(h *ethertype.Header) *Descriptor {
	l := &v.loose
	if l.begun && !l.msg.Less(h.Msg) && (l.msg == h.Msg || !l.at.Less(h.Seq)) {
		if l.open && l.msg == h.Msg {
			return v.rq.at(v.rq.done)
		}
		v.drop(DropLate)
		return nil
	}
	v.looseAbandon()
	l.begun, l.msg, l.at = true, h.Msg, h.Seq
	if v.rq.done == v.rq.tail {
		v.drop(DropNoReceive)
		v.nic.raise(CodeRecvqEmpty, v, nil, StatusOpReceive, ErrRecvQueue)
		return nil
	}
	l.open = true
	d := v.rq.at(v.rq.done)
	d.begun, d.length = true, h.Length
	return d
}

func (v *VI) looseFragment(h *ethertype.Header, data []byte, imm uint32, hasImm bool) {
	d := v.looseOpen(h)
	if d == nil {
		return
	}
	switch {
	case h.Length != d.length || d.oneSide:
		v.drop(DropRange)
		return
	case h.Length > d.total || !scatter(d.Segs, h.Offset, data):
		v.loose.open = false
		v.stats.Receives++
		v.rq.complete(v, StatusOpReceive|StatusLengthError, 0)
		return
	}
	d.Immediate, d.HasImmediate = imm, hasImm
	v.looseClose(d, len(data))
}

// looseClose counts a fragment and completes the message when it is whole.
func (v *VI) looseClose(d *Descriptor, size int) {
	if d.got += uint32(size); d.got >= d.length {
		v.loose.open = false
		v.finishReceive(d)
	}
}

func (v *VI) looseRDMA(h *ethertype.Header, payload []byte) {
	r, data := ethertype.ParseRDMA(payload)
	if len(data) > 0 {
		dst := v.target(r, h.Length)
		if dst == nil {
			v.looseForbidden(h)
			return
		}
		copy(dst[h.Offset:], data)
		v.stats.RDMABytes += uint64(len(data))
	}
	if h.Flags&ethertype.FlagImmediate == 0 {
		return
	}
	if d := v.looseOpen(h); d != nil {
		if d.got > 0 && !d.oneSide || d.length != h.Length {
			v.drop(DropRange)
			return
		}
		d.oneSide, d.Immediate, d.HasImmediate = true, r.Immediate, true
		v.looseClose(d, len(data))
	}
}

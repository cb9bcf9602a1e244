package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// serveTable is the owner's side of RDMA reads. It answers the peer's reads one
// after another, in the order of their numbers, which is that of the requests:
// no descriptor, no copy, and nothing kept but where the memory is. Every
// fragment, also one that is sent again, is made from the region as it is then,
// after the same checks.
//
//	base..next-1  answered, and not all of the answer has been acknowledged
//	next          being answered
//
// Answers and the VI's own sends take turns, frame by frame, while there are
// both, so that neither waits for more than one frame of the other.
type serveTable struct {
	slots      []serving // by the read's number; made for the first one
	base, next ethertype.Seq
	offset     uint32 // bytes of next's answer that have been sent
	waiting    int    // requests that have come, from next on
	denied     bool   // one is not allowed: the connection ends
	turn       bool   // the last frame was of an answer
}

// serving is one read.
type serving struct {
	from   ethertype.RDMA
	length uint32
	seq    ethertype.Seq // of the request
	last   ethertype.Seq // of the answer's last frame
	asked  bool          // the request has come
}

// sentAnswer in reliability.Sent.Flags says that the frame is part of an
// answer; First is then the number of the read.
const sentAnswer = 1

func (t *serveTable) slot(m ethertype.Seq) *serving {
	return &t.slots[uint32(m)&uint32(len(t.slots)-1)]
}

// placeRequest notes a request. Its memory is looked at when its turn comes:
// when everything sent before it has arrived, and the reads before it have
// been answered.
func (v *VI) placeRequest(h *ethertype.Header, payload []byte) (outcome, reason) {
	t := &v.serves
	if ahead := h.Msg.Sub(t.next); ahead < 0 || h.Msg.Sub(t.base) >= v.attr.ReadDepth {
		return fatal, reasonProtocol // more than this side has said that it serves
	}
	if len(t.slots) < v.attr.ReadDepth {
		t.slots = make([]serving, tableSize(v.attr.ReadDepth))
	}
	s := t.slot(h.Msg)
	if s.asked {
		return fatal, reasonProtocol
	}
	*s = serving{length: h.Length, seq: h.Seq, asked: true}
	s.from, _ = ethertype.ParseRDMA(payload)
	t.waiting++
	return placed, 0
}

// answers reports whether a fragment of an answer can go. A read that is not
// allowed ends the connection, but not before the answers of earlier reads
// have arrived, so that the peer can tell which one it was.
func (v *VI) answers() bool {
	t := &v.serves
	if t.waiting == 0 || t.denied {
		return false
	}
	s := t.slot(t.next)
	if !s.asked || !s.seq.Less(v.rx.Next()) {
		return false
	}
	if v.allowed(s) {
		return true
	}
	if t.base == t.next {
		v.deny()
	}
	return false
}

// allowed reports whether the peer may read what it asks for. No bytes may
// always be read.
func (v *VI) allowed(s *serving) bool { return s.length == 0 || v.source(s) != nil }

// source finds the memory that a read is from; nil when any part of it is
// forbidden.
func (v *VI) source(s *serving) []byte {
	if !v.attr.EnableRDMARead {
		return nil
	}
	return v.nic.mem.Source(s.from.Addr, s.length, MemHandle(s.from.Handle), v.attr.Ptag)
}

// deny ends the connection because of a read that is not allowed.
func (v *VI) deny() {
	v.serves.denied = true
	v.nic.raise(CodeRDMARProt, v, nil, StatusOpRDMARead, ErrRDMA)
	v.fail(reasonRead)
}

// nextFrame cuts the next new frame. ok is false when there is none: what is
// on the send queue may have to wait for reads.
func (v *VI) nextFrame() (f reliability.Sent, ok bool) {
	t := &v.serves
	if t.waiting == 0 && !v.reads.open() { // nothing to take turns with or to wait for
		return v.cut(), true
	}
	answer := v.answers()
	own := v.cursor.next != v.sq.tail && !v.waits()
	switch {
	case answer && !(own && t.turn):
		t.turn = true
		return v.cutAnswer(), true
	case own:
		t.turn = false
		return v.cut(), true
	}
	return reliability.Sent{}, false
}

// cutAnswer takes the next fragment off the answer that is being given.
func (v *VI) cutAnswer() reliability.Sent {
	t := &v.serves
	s := t.slot(t.next)
	size := fragment(s.length-t.offset, v.maxData, false)
	f := reliability.Sent{First: t.next, Offset: t.offset, Size: size, Count: 1, Flags: sentAnswer}
	t.offset += size
	if t.offset == s.length {
		s.last = v.tx.NextSeq()
		t.next++
		t.offset = 0
		t.waiting--
		v.stats.RDMABytes += uint64(s.length)
	}
	return f
}

// buildAnswer makes the frame of an answer that f describes and adds it to the
// batch. Like build it reports false when the link takes no more now.
func (v *VI) buildAnswer(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	n, s := v.nic, v.serves.slot(f.First)
	if v.serves.denied {
		return false
	}
	if !v.allowed(s) { // no longer
		v.deny()
		return false
	}
	slot := n.tx.slot(n)
	if slot == nil {
		return false
	}
	h := v.header(ethertype.KindReadData)
	h.Flags |= flags
	if f.Offset+f.Size == s.length {
		h.Flags |= ethertype.FlagLast
	}
	h.Seq, h.Msg, h.Count = seq, f.First, f.Count
	h.Offset, h.Length, h.Size = f.Offset, s.length, uint16(f.Size)
	h.Put(slot)
	if f.Size == 0 {
		n.tx.add(slot[:ethertype.HeaderSize], nil)
		return true
	}
	data := v.source(s)[f.Offset:][:f.Size]
	if f.Size <= copyMax && int(f.Size) <= n.tx.inline() {
		n.tx.add(slot[:ethertype.HeaderSize+copy(slot[ethertype.HeaderSize:], data)], nil)
		return true
	}
	n.tx.add(slot[:ethertype.HeaderSize], append(n.tx.body(), data))
	return true
}

// retire forgets the reads whose answers have arrived.
func (v *VI) retire() {
	t, una := &v.serves, v.tx.Una()
	for t.base != t.next && t.slot(t.base).last.Less(una) {
		*t.slot(t.base) = serving{}
		t.base++
	}
}

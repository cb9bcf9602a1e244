package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
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
// Answers and the connection's own sends take turns, frame by frame, while there are
// both, so that neither waits for more than one frame of the other.
type serveTable struct {
	c          *Conn
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

// What reliability.Sent.Flags says: sentAnswer, that the frame is part of an answer, whose First
// is then the number of the read; sentAsks, that it ends a message with AckNow.
const (
	sentAnswer = 1 << iota
	sentAsks
)

func (t *serveTable) slot(m ethertype.Seq) *serving {
	return &t.slots[uint32(m)&uint32(len(t.slots)-1)]
}

// reset prepares for a new connection.
func (t *serveTable) reset() {
	*t = serveTable{c: t.c, slots: t.slots}
	clear(t.slots)
}

// placeRequest notes a request. Its memory is looked at when its turn comes:
// when everything sent before it has arrived, and the reads before it have
// been answered.
func (t *serveTable) placeRequest(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	if ahead := h.Msg.Sub(t.next); ahead < 0 || h.Msg.Sub(t.base) >= t.c.terms.ReadDepth {
		return fatal, code.ReasonProtocol // more than this side has said that it serves
	}
	if len(t.slots) < t.c.terms.ReadDepth {
		t.slots = make([]serving, tableSize(t.c.terms.ReadDepth))
	}
	s := t.slot(h.Msg)
	if s.asked {
		return fatal, code.ReasonProtocol
	}
	*s = serving{length: h.Length, seq: h.Seq, asked: true}
	s.from, _ = ethertype.ParseRDMA(payload)
	t.waiting++
	return placed, 0
}

// ready reports whether a fragment of an answer can go. A read that is not
// allowed ends the connection, but not before the answers of earlier reads
// have arrived, so that the peer can tell which one it was.
func (t *serveTable) ready() bool {
	if t.waiting == 0 || t.denied {
		return false
	}
	s := t.slot(t.next)
	if !s.asked || !s.seq.Less(t.c.rx.receiver.Next()) {
		return false
	}
	if t.allowed(s) {
		return true
	}
	if t.base == t.next {
		t.deny()
	}
	return false
}

// allowed reports whether the peer may read what it asks for. No bytes may
// always be read.
func (t *serveTable) allowed(s *serving) bool { return s.length == 0 || t.source(s) != nil }

// source finds the memory that a read is from; nil when any part of it is
// forbidden.
func (t *serveTable) source(s *serving) []byte {
	if !t.c.terms.EnableRDMARead {
		return nil
	}
	return t.c.shared.Mem.Source(s.from.Addr, s.length, memory.Handle(s.from.Handle), t.c.terms.Ptag)
}

// deny ends the connection because of a read that is not allowed.
func (t *serveTable) deny() {
	t.denied = true
	t.c.Owner.Raise(FaultReadForbidden, nil, code.StatusOpRDMARead, code.ErrRDMA)
	t.c.fail(code.ReasonRead)
}

// cut takes the next fragment off the answer that is being given.
func (t *serveTable) cut() reliability.Sent {
	s := t.slot(t.next)
	size := fragmentSize(s.length-t.offset, t.c.Path.MaxData, false)
	f := reliability.Sent{First: t.next, Offset: t.offset, Size: size, Count: 1, Flags: sentAnswer}
	t.offset += size
	if t.offset == s.length {
		s.last = t.c.tx.sender.NextSeq()
		t.next++
		t.offset = 0
		t.waiting--
		t.c.Stats.RDMABytes += uint64(s.length)
	}
	return f
}

// build makes the frame of an answer that f describes and adds it to the
// batch. Like that of txHalf it reports false when the link takes no more now.
func (t *serveTable) build(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	sh, s := t.c.shared, t.slot(f.First)
	if t.denied {
		return false
	}
	if !t.allowed(s) { // no longer
		t.deny()
		return false
	}
	slot := sh.slot()
	if slot == nil {
		return false
	}
	h := t.c.header(ethertype.KindReadData)
	h.Flags |= flags
	if f.Offset+f.Size == s.length {
		h.Flags |= ethertype.FlagLast
	}
	h.Seq, h.Msg, h.Count = seq, f.First, f.Count
	h.Offset, h.Length, h.Size = f.Offset, s.length, uint16(f.Size)
	h.Put(slot)
	if f.Size == 0 {
		t.c.Path.addShort(slot[:ethertype.HeaderSize])
		return true
	}
	data := t.source(s)[f.Offset:][:f.Size]
	if f.Size <= copyMax && int(f.Size) <= sh.batch.Inline() {
		t.c.Path.addShort(slot[:ethertype.HeaderSize+copy(slot[ethertype.HeaderSize:], data)])
		return true
	}
	sh.batch.Add(slot[:ethertype.HeaderSize], append(sh.batch.Body(), data))
	return true
}

// retire forgets the reads whose answers have arrived.
func (t *serveTable) retire() {
	una := t.c.tx.sender.Una()
	for t.base != t.next && t.slot(t.base).last.Less(una) {
		*t.slot(t.base) = serving{}
		t.base++
	}
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// serveTable answers the peer's RDMA reads, one after the other in the order of their requests. It
// needs no descriptor and no copy, and stores only the location of the memory. It builds every
// fragment, also a retransmission, from the current contents of the region, after the same checks.
//
//	base..next-1  answered, not fully acknowledged
//	next          being answered
//
// Answers and the connection's own sends alternate frame by frame, so that neither waits for more
// than one frame of the other.
type serveTable struct {
	c          *Conn
	slots      []serving // indexed by the read's number; allocated for the first one
	base, next ethertype.Seq
	offset     uint32 // bytes of the current answer that were sent
	waiting    int    // requests from next on
	denied     bool   // one is forbidden: the connection ends
	turn       bool   // the last frame belonged to an answer
}

// serving is one read.
type serving struct {
	from   ethertype.RDMA
	length uint32
	seq    ethertype.Seq // of the request
	last   ethertype.Seq // of the answer's last frame
	asked  bool          // the request has arrived
}

// Values of reliability.Sent.Flags. sentAnswer: the frame is part of an answer, and First is the
// number of the read. sentAsks: it ends a message with AckNow.
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

// placeRequest records a request. Its memory is accessed when its turn comes: when everything sent
// before it has arrived, and the earlier reads have been answered.
func (t *serveTable) placeRequest(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	if ahead := h.Msg.Sub(t.next); ahead < 0 || h.Msg.Sub(t.base) >= t.c.terms.ReadDepth {
		return fatal, code.ReasonProtocol // more than this side has agreed to serve
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

// ready reports whether a fragment of an answer can be sent. A forbidden read ends the connection,
// but only after the answers of earlier reads have arrived, so that the peer can tell which read
// was at fault.
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

// allowed reports whether the peer may read the requested memory. A read of 0 bytes is always
// allowed.
func (t *serveTable) allowed(s *serving) bool { return s.length == 0 || t.source(s) != nil }

// source returns the memory of a read, or nil if any part of it is forbidden.
func (t *serveTable) source(s *serving) []byte {
	if !t.c.terms.EnableRDMARead {
		return nil
	}
	return t.c.shared.Mem.Source(s.from.Addr, s.length, memory.Handle(s.from.Handle), t.c.terms.Ptag)
}

// deny ends the connection because of a forbidden read.
func (t *serveTable) deny() {
	t.denied = true
	t.c.Owner.Raise(FaultReadForbidden, nil, code.StatusOpRDMARead, code.ErrRDMA)
	t.c.fail(code.ReasonRead)
}

// cut removes the next fragment from the current answer.
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

// build builds a frame of an answer and adds it to the batch. Like txHalf.build it returns false if
// the link accepts no more now.
func (t *serveTable) build(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	sh, s := t.c.shared, t.slot(f.First)
	if t.denied {
		return false
	}
	if !t.allowed(s) { // the permission has changed
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
	sh.batch.Add(slot[:ethertype.HeaderSize], append(sh.batch.Body(), data), nil)
	return true
}

// retire removes the reads whose answers have arrived.
func (t *serveTable) retire() {
	una := t.c.tx.sender.Una()
	for t.base != t.next && t.slot(t.base).last.Less(una) {
		*t.slot(t.base) = serving{}
		t.base++
	}
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// A long frame that was under way when its path stopped carrying such frames goes again
// in pieces: frames of the MTU, each with a part of the frame, its header included. The
// receiver puts them together, and then has received that frame. Pieces have no numbers
// of their own. What is lost of them is sent again with all others of the frame when that
// is found lost; and the receiver keeps those it has until the frame is whole. It puts one
// frame together at a time, the oldest.

// pieces is a frame that is being put together.
type pieces struct {
	begun bool
	seq   ethertype.Seq // the frame's number
	have  int           // bytes
	got   [piecesMax / 64]uint64
	frame []byte
}

// piecesMax is how many pieces a frame can have: those of the longest frame at the
// smallest MTU.
const piecesMax = 256

// longest is the longest frame, Ethernet header included.
const longest = ethertype.EthernetSize + ethertype.LongMTU

// sendPieces builds the frame that f describes and sends it in pieces. It reports
// false when the link takes no more now, or the connection has ended.
func (t *txHalf) sendPieces(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	a := t.c.a
	b := &a.batch
	if !t.build(f, seq, flags) {
		return false
	}
	if a.Long.out == nil {
		a.Long.out = make([]byte, 0, longest)
	}
	frame := b.TakeBack(a.Long.out)
	per := min(t.c.Path.Data, b.Inline())
	for i := 0; i*per < len(frame); i++ {
		slot := a.slot()
		if slot == nil {
			t.leaveToPoll()
			return false
		}
		part := frame[i*per : min((i+1)*per, len(frame))]
		h := t.c.header(ethertype.KindPiece)
		h.Msg, h.Count = seq, uint16(i)
		h.Offset, h.Length, h.Size = uint32(i*per), uint32(len(frame)), uint16(len(part))
		h.Put(slot)
		b.Add(slot[:ethertype.HeaderSize+copy(slot[ethertype.HeaderSize:], part)], nil)
	}
	return true
}

// receivePiece takes in a piece, and returns the frame when it is whole.
func (r *rxHalf) receivePiece(h *ethertype.Header, payload []byte) (whole []byte) {
	if !r.c.Path.Long || h.Length > longest || h.Length <= ethertype.HeaderSize || h.Count >= piecesMax ||
		len(payload) == 0 || int64(h.Offset)+int64(len(payload)) > int64(h.Length) {
		r.c.Drop(code.DropFormat)
		return nil
	}
	if r.receiver.Check(h.Msg) == reliability.Duplicate {
		r.c.Drop(code.DropDuplicate)
		r.receiver.Duplicate()
		return nil
	}
	p := r.pieces
	if p == nil {
		p = &pieces{frame: make([]byte, longest)}
		r.pieces = p
	}
	if p.begun && p.seq.Less(h.Msg) && r.receiver.Check(p.seq) == reliability.Accept {
		r.c.Drop(code.DropAhead)
		return nil
	}
	if !p.begun || p.seq != h.Msg || len(p.frame) != int(h.Length) {
		*p = pieces{begun: true, seq: h.Msg, frame: p.frame[:h.Length]}
	}
	bit := uint64(1) << (h.Count % 64)
	if word := &p.got[h.Count/64]; *word&bit == 0 {
		*word |= bit
		p.have += copy(p.frame[h.Offset:], payload)
	}
	if p.have == len(p.frame) {
		p.begun = false
		return r.whole(p)
	}
	return nil
}

// whole returns a frame that has been put together, if it is one of the connection's.
func (r *rxHalf) whole(p *pieces) []byte {
	var h ethertype.Header
	if _, err := h.Parse(p.frame); err != nil || !h.Kind.Sequenced() || h.Seq != p.seq || h.DstPort != r.c.Port {
		r.c.Drop(code.DropFormat)
		return nil
	}
	return p.frame
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// sendPieces builds the frame that f describes and sends it in pieces. It reports
// false when the link takes no more now, or the connection has ended.
func (t *txHalf) sendPieces(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	sh := t.c.shared
	b := &sh.batch
	if !t.build(f, seq, flags) {
		return false
	}
	if sh.Long.out == nil {
		sh.Long.out = make([]byte, 0, longestFrame)
	}
	frame := b.TakeBack(sh.Long.out)
	per := min(t.c.Path.Data, b.Inline())
	for i := 0; i*per < len(frame); i++ {
		slot := sh.slot()
		if slot == nil {
			t.c.leaveToPoll()
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

// receivePiece takes in a piece, and returns the frame when it is whole. One frame is put
// together at a time, the oldest.
func (r *rxHalf) receivePiece(h *ethertype.Header, payload []byte) (whole []byte) {
	switch p := r.pieces; {
	case !r.c.Path.Long || !pieceFits(h, payload):
		r.c.Drop(code.DropFormat)
		return nil
	case r.receiver.Check(h.Msg) == reliability.Duplicate:
		r.c.Drop(code.DropDuplicate)
		r.receiver.Duplicate()
		return nil
	case p == nil:
		r.pieces = newReassembly()
	case p.Begun && p.Seq.Less(h.Msg) && r.receiver.Check(p.Seq) == reliability.Accept:
		r.c.Drop(code.DropAhead)
		return nil
	}
	if !r.pieces.AddPiece(h, payload) {
		return nil
	}
	if whole = r.pieces.Whole(r.c.Port); whole == nil {
		r.c.Drop(code.DropFormat)
	}
	return whole
}

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/reliability"
)

// longestFrame is the longest frame, Ethernet header included.
const longestFrame = ethertype.EthernetSize + framing.LongMTU

// maxPieces is the maximum number of pieces of a frame: the longest frame at the smallest MTU.
const maxPieces = 256

// reassembly is a long frame that arrives in pieces. It is pure.
//
// A long frame that was under way when its path stopped carrying such frames is sent again in
// pieces: frames of the MTU, each with a part of the long frame, header included. The receiver
// puts them together and then has received the long frame. Pieces have no sequence numbers of
// their own. If a piece is lost, the sender repeats all pieces of the frame when it finds the
// frame lost. The receiver keeps the pieces that it has until the frame is whole.
type reassembly struct {
	Begun bool
	Seq   ethertype.Seq // the frame's number
	have  int           // bytes received
	got   [maxPieces / 64]uint64
	frame []byte
}

// newReassembly returns a reassembly with room for any frame.
func newReassembly() *reassembly { return &reassembly{frame: make([]byte, longestFrame)} }

// pieceFits reports whether a piece with header h can be part of a frame.
func pieceFits(h *ethertype.Header, piece []byte) bool {
	return h.Length <= longestFrame && h.Length > ethertype.HeaderSize && h.Count < maxPieces &&
		len(piece) > 0 && int64(h.Offset)+int64(len(piece)) <= int64(h.Length)
}

// AddPiece adds a piece that fits, unless it is a duplicate. A piece of another frame, or of a
// frame of another length, starts that frame. It reports whether the frame is complete.
func (f *reassembly) AddPiece(h *ethertype.Header, piece []byte) (whole bool) {
	if !f.Begun || f.Seq != h.Msg || len(f.frame) != int(h.Length) {
		*f = reassembly{Begun: true, Seq: h.Msg, frame: f.frame[:h.Length]}
	}
	bit := uint64(1) << (h.Count % 64)
	if word := &f.got[h.Count/64]; *word&bit == 0 {
		*word |= bit
		f.have += copy(f.frame[h.Offset:], piece)
	}
	if f.have < len(f.frame) {
		return false
	}
	f.Begun = false
	return true
}

// Whole returns a complete frame if it is a sequenced frame to port with the number of its pieces,
// and nil otherwise. It is valid until the next piece arrives.
func (f *reassembly) Whole(port uint16) []byte {
	var h ethertype.Header
	if _, err := h.Parse(f.frame); err != nil || !h.Kind.Sequenced() || h.Seq != f.Seq || h.DstPort != port {
		return nil
	}
	return f.frame
}

// sendPieces builds the frame that f describes and sends it in pieces. It returns false if the link
// accepts no more now, or the connection has ended.
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
		b.Add(slot[:ethertype.HeaderSize+copy(slot[ethertype.HeaderSize:], part)], nil, nil)
	}
	return true
}

// receivePiece handles a piece, and returns the frame when it is complete. Only the oldest frame is
// reassembled at a time.
func (r *rxHalf) receivePiece(h *ethertype.Header, payload []byte) (whole []byte) {
	switch p := r.pieces; {
	case !r.c.Path.Long || !pieceFits(h, payload):
		r.c.Drop(drops.Format)
		return nil
	case r.receiver.Check(h.Msg) == reliability.Duplicate:
		r.c.Drop(drops.Duplicate)
		r.receiver.Duplicate()
		return nil
	case p == nil:
		r.pieces = newReassembly()
	case p.Begun && p.Seq.Less(h.Msg) && r.receiver.Check(p.Seq) == reliability.Accept:
		r.c.Drop(drops.Ahead)
		return nil
	}
	if !r.pieces.AddPiece(h, payload) {
		return nil
	}
	if whole = r.pieces.Whole(r.c.Port); whole == nil {
		r.c.Drop(drops.Format)
	}
	return whole
}

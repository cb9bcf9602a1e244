// Package pieces puts long frames together that come in pieces. It is pure.
//
// A long frame that was under way when its path stopped carrying such frames goes again
// in pieces: frames of the MTU, each with a part of the frame, its header included. The
// receiver puts them together, and then has received that frame. Pieces have no numbers
// of their own. What is lost of them is sent again with all others of the frame when that
// is found lost; and the receiver keeps those it has until the frame is whole.
package pieces

import "github.com/bobnet-go/bobnet/ethertype"

// Longest is the longest frame, Ethernet header included.
const Longest = ethertype.EthernetSize + ethertype.LongMTU

// most is how many pieces a frame can have: those of the longest frame at the smallest
// MTU.
const most = 256

// Frame is a frame that is being put together.
type Frame struct {
	Begun bool
	Seq   ethertype.Seq // the frame's number
	have  int           // bytes
	got   [most / 64]uint64
	frame []byte
}

// New returns one that has room for any frame.
func New() *Frame { return &Frame{frame: make([]byte, Longest)} }

// Fits reports whether a piece, of which h is the header, can be one of a frame.
func Fits(h *ethertype.Header, piece []byte) bool {
	return h.Length <= Longest && h.Length > ethertype.HeaderSize && h.Count < most &&
		len(piece) > 0 && int64(h.Offset)+int64(len(piece)) <= int64(h.Length)
}

// Add adds a piece that fits, once. A piece of another frame, or of one of another length, begins
// that one. It reports whether the frame has come as a whole.
func (f *Frame) Add(h *ethertype.Header, piece []byte) (whole bool) {
	if !f.Begun || f.Seq != h.Msg || len(f.frame) != int(h.Length) {
		*f = Frame{Begun: true, Seq: h.Msg, frame: f.frame[:h.Length]}
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

// Whole returns a frame that has come as a whole, if it is a sequenced one to a port, of the number
// that its pieces have said, and else nil. It is valid until the next piece comes.
func (f *Frame) Whole(port uint16) []byte {
	var h ethertype.Header
	if _, err := h.Parse(f.frame); err != nil || !h.Kind.Sequenced() || h.Seq != f.Seq || h.DstPort != port {
		return nil
	}
	return f.frame
}

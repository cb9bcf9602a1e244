package plain

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
)

// frameRing is frames in the host's memory between host and card, one after the other. The
// numbers of frames run on; a number's slot is the number modulo the ring's length, which
// is a power of two.
type frameRing struct {
	slots []slot
	put   atomic.Uint32 // frames that were put in so far
	taken atomic.Uint32 // and taken out
}

// slot holds a frame.
type slot struct {
	mem []byte
	n   int // bytes of it that the frame has
	// from is the frame that has these bytes, while it is in the memory of who sends it:
	// a live card takes most frames from there, and mem is not needed. Nil for mem.
	from *transport.Frame
}

func (r *frameRing) init(slots, size int) {
	n := 1
	for n < slots {
		n *= 2
	}
	mem := make([]byte, n*size)
	r.slots = make([]slot, n)
	for i := range r.slots {
		r.slots[i].mem = mem[i*size:][:size:size]
	}
}

// own copies the frames that the card has not taken and that lie with who sends them.
func (r *frameRing) own() {
	for i, put := r.taken.Load(), r.put.Load(); i != put; i++ {
		if s := r.at(i); s.from != nil {
			s.from.AppendTo(s.mem[:0])
			s.from = nil
		}
	}
}

func (r *frameRing) at(number uint32) *slot { return &r.slots[int(number)&(len(r.slots)-1)] }

// The doorbell page: words of 32 bits, little-endian, as the processors of the papers'
// hosts had them.
const (
	wordSent  = 0 // frames that the host has put into the send ring
	wordTaken = 4 // frames that it has taken out of the receive ring
	wordAsks  = 8 // not 0: it wants an interrupt for the next frame that comes
	pageUsed  = 12
)

func word(page []byte, at int) uint32 { return binary.LittleEndian.Uint32(page[at:]) }

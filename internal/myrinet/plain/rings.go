package plain

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
)

// frameRing is a queue of frames in the host's memory between host and card. Frame numbers
// increase; a frame's slot is its number modulo the ring's length, which is a power of two.
type frameRing struct {
	slots []slot
	put   atomic.Uint32 // frames put in so far
	taken atomic.Uint32 // frames taken out so far
}

// slot holds a frame.
type slot struct {
	mem []byte
	n   int // size of the frame in bytes
	// from is the frame while its bytes are still in the memory of Send's caller. A live card reads
	// most frames from there and does not use mem. nil means mem.
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

// own copies the frames that the card has not taken from the caller's memory into the ring.
func (r *frameRing) own() {
	for i, put := r.taken.Load(), r.put.Load(); i != put; i++ {
		if s := r.at(i); s.from != nil {
			s.from.AppendTo(s.mem[:0])
			s.from = nil
		}
	}
}

func (r *frameRing) at(number uint32) *slot { return &r.slots[int(number)&(len(r.slots)-1)] }

// The doorbell page: words of 32 bits, little-endian as on the processors of the papers' hosts.
const (
	wordSent  = 0 // frames that the host has put into the send ring
	wordTaken = 4 // frames that the host has taken from the receive ring
	wordAsks  = 8 // not 0: the host wants an interrupt for the next frame
	pageUsed  = 12
)

func word(page []byte, at int) uint32 { return binary.LittleEndian.Uint32(page[at:]) }

package reliability

import (
	"encoding/binary"
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
)

// window64 returns 64 bits of a ring bitmap whose length is a power of two. The least significant
// bit stands for first.
func window64(ring []uint64, first ethertype.Seq) uint64 {
	i, shift := int(first/64)&(len(ring)-1), uint(first%64)
	return ring[i]>>shift | ring[(i+1)&(len(ring)-1)]<<(64-shift)
}

// ackHistory is how old an acknowledgement may be, in frames (RFC 5961, section 5). An older one
// belongs to another connection, is a guess, or is useless.
const ackHistory = MaxWindow

// validSack reports whether the bits after ack stand for frames that have been sent, and more has
// the format of Receiver.AppendSack.
func (s *Sender) validSack(ack ethertype.Seq, sack uint64, more []byte) bool {
	if len(more)%8 != 0 || len(more) > MaxSack {
		return false
	}
	top, word := 1, sack // distance from ack to the first frame of word
	for i := 0; i < len(more); i += 8 {
		if w := sackWord(more, i); w != 0 {
			top, word = 65+8*i, w
		}
	}
	return word == 0 || top+63-bits.LeadingZeros64(word) < s.nxt.Sub(ack)
}

func sackWord(more []byte, i int) uint64 { return binary.BigEndian.Uint64(more[i:]) }

package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
)

// copyRoom is the longest message that is copied into the slot while there is room: the copy costs
// less than two more parts of the frame. Messages of up to copyMax are always copied.
const copyRoom = 1024

// frameLoad is the space that messages take in a frame.
type frameLoad struct {
	Count  int // messages
	Size   int // payload bytes
	Inline int // bytes of these in the slot: records, copies and padding
	Parts  int // of the frame's body
}

// Weigh returns what a message of total bytes in a number of segments adds to l. The slot of the
// packed frame has room for inline bytes. Whether the message is copied depends only on the
// messages before it, so that a frame can be rebuilt.
func (l *frameLoad) Weigh(total uint32, segments, inline int) frameLoad {
	need := ethertype.Packed(int(total))
	if total <= copyMax || total <= copyRoom && l.Inline+need <= inline {
		return frameLoad{1, need, need, 0}
	}
	return frameLoad{1, need, need - int(total), segments + 1} // one part for the slot's contents behind it
}

// joinedLoad returns what a message adds whose frame, with size payload bytes, follows another
// frame.
func joinedLoad(size int) frameLoad {
	size += ethertype.HeaderSize
	return frameLoad{1, size, size, 0}
}

// Fits reports whether there is room for w in a frame of maxData bytes.
func (l *frameLoad) Fits(w *frameLoad, maxData, inline int) bool {
	return l.Size+w.Size <= maxData && l.Inline+w.Inline <= inline && l.Parts+w.Parts <= bodyParts
}

// Add adds w.
func (l *frameLoad) Add(w *frameLoad) {
	l.Count += w.Count
	l.Size += w.Size
	l.Inline += w.Inline
	l.Parts += w.Parts
}

// fragmentSize returns how many of left bytes go into a frame with room bytes. The fragments of an RDMA
// write, except the last, are whole words. On the reliable levels the first one is shorter; see firstFragment.
func fragmentSize(left uint32, room int, write bool) uint32 {
	size := uint32(room)
	if left <= size {
		return left
	}
	switch {
	case size >= alignFrom:
		size &^= alignTo - 1
	case write:
		size &^= latch.WordSize - 1
	}
	return size
}

// firstFragment returns how many of the total bytes of an RDMA write to addr go into its first frame, if
// the others, except the last, have size bytes. No word is in two frames, and the last frame has the last whole
// word and what follows it.
func firstFragment(size, total uint32, addr uint64) uint32 {
	first := size - uint32(addr%latch.WordSize)
	if end := (total - first) % size; 0 < end && end < 2*latch.WordSize {
		first -= 2 * latch.WordSize
	}
	return first
}

// firstShorter is more than the difference between size and the result of firstFragment.
const firstShorter = 4 * latch.WordSize

// Fragments of long messages in large frames begin at multiples of alignTo, because copies between
// equally aligned addresses are faster.
const (
	alignFrom = 4096
	alignTo   = 64
)

package conn

import "github.com/bobnet-go/bobnet/internal/latch"

// fragmentSize returns how many of left bytes go into a frame that has room bytes. Those of
// an RDMA write end at words, so that no word is in two frames.
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

// Fragments of long messages in large frames begin at multiples of alignTo,
// because copies between memory that is aligned alike are faster.
const (
	alignFrom = 4096
	alignTo   = 64
)

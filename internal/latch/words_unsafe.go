package latch

import (
	"sync/atomic"
	"unsafe"
)

// Programs look at memory while peers write to it, and take the last word of a message
// for the sign that all of it has come. So the data of a frame of an RDMA write is stored
// word by word where it is aligned, and its last word behind all the others.

// MaxEdges is the most bytes that Edges returns for both ends together.
const MaxEdges = 3*WordSize - 2

// WordSize is that of the largest word that is never seen half written, in bytes.
const WordSize = 8

// StoreWords copies src to dst, which is as long. No
// aligned word of 4 or 8 bytes is torn, and the last one is stored last.
func StoreWords(dst, src []byte) {
	if edge := int(-addressOf(dst) & (WordSize - 1)); edge > 0 {
		edge = min(edge, len(dst))
		storeEdge(dst[:edge], src)
		dst, src = dst[edge:], src[edge:]
	}
	if whole := len(dst)&^(WordSize-1) - WordSize; whole >= 0 {
		copy(dst[:whole], src)
		dst, src = dst[whole:], src[whole:]
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[0])), *(*uint64)(unsafe.Pointer(&src[0])))
		dst, src = dst[WordSize:], src[WordSize:]
	}
	storeEdge(dst, src)
}

// Edges returns how many bytes of dst precede its first aligned word, and how many there are from its
// last whole word on: all of them if there is nothing between both. The bytes between both ends are aligned
// words that anything may copy; StoreWords then stores the ends.
func Edges(dst []byte) (head, tail int) {
	head = int(-addressOf(dst) & (WordSize - 1))
	tail = WordSize + int((addressOf(dst)+uintptr(len(dst)))&(WordSize-1))
	if head+tail >= len(dst) {
		return 0, len(dst)
	}
	return head, tail
}

// storeEdge stores what lies at one end of the words.
func storeEdge(dst, src []byte) {
	for len(dst) > 0 {
		size := 1
		if len(dst) >= 4 && addressOf(dst)%4 == 0 {
			size = 4
			atomic.StoreUint32((*uint32)(unsafe.Pointer(&dst[0])), *(*uint32)(unsafe.Pointer(&src[0])))
		} else {
			dst[0] = src[0]
		}
		dst, src = dst[size:], src[size:]
	}
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

package latch

import (
	"sync/atomic"
	"unsafe"
)

// Programs read memory while peers write to it, and conclude from the last word of a message that
// the whole message has arrived. So the aligned data of a frame of an RDMA write are stored word by
// word, and the last word is stored after all others.

// MaxEdges is the maximum number of bytes that Edges returns for both ends together.
const MaxEdges = 3*WordSize - 2

// WordSize is the size, in bytes, of the largest word that a reader never sees partly written.
const WordSize = 8

// StoreWords copies src to dst, which has the same length. No aligned word of 4 or 8 bytes is torn,
// and the last word is stored last.
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

// Edges returns the number of bytes of dst before its first aligned word, and the number of bytes
// from its last whole word on. If there is nothing in between, the sum is the length of dst. The
// bytes in between are aligned words, which the caller may copy in any way; StoreWords then stores
// the ends.
func Edges(dst []byte) (head, tail int) {
	head = int(-addressOf(dst) & (WordSize - 1))
	tail = WordSize + int((addressOf(dst)+uintptr(len(dst)))&(WordSize-1))
	if head+tail >= len(dst) {
		return 0, len(dst)
	}
	return head, tail
}

// storeEdge stores the bytes at one end of the words.
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

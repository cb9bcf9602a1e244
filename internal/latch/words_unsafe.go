package latch

import (
	"sync/atomic"
	"unsafe"
)

// Programs look at memory while peers write to it, and take the last word of a message
// for the sign that all of it has come. So the data of a frame of an RDMA write is stored
// word by word where it is aligned, and its last word behind all the others.

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
	whole := len(dst) &^ (WordSize - 1)
	if whole == len(dst) && whole > 0 {
		whole -= WordSize
	}
	copy(dst[:whole], src)
	if dst = dst[whole:]; len(dst) == WordSize {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[0])), *(*uint64)(unsafe.Pointer(&src[whole])))
		return
	}
	storeEdge(dst, src[whole:])
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

package conn

import (
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Programs look at memory while peers write to it, and take the last word of a message
// for the sign that all of it has come. So the data of a frame of an RDMA write is stored
// word by word where it is aligned, and its last word behind all the others.

// wordSize is that of the largest word that is never seen half written, in bytes.
const wordSize = 8

// putWords copies data, the end of the payload that is being received, to dst, which is as
// long. No aligned word of 4 or 8 bytes is torn, and the last one is stored last. It
// reports false if the link has lost the data.
func (a *Adapter) putWords(dst, data []byte) bool {
	l := &a.Long
	if !l.promise {
		storeWords(dst, data)
		return true
	}
	last := min(len(dst), wordSize)
	l.parts[0], l.parts[1] = dst[:len(dst)-last], l.last[:last]
	parts := l.parts[:2]
	if len(parts[0]) == 0 {
		parts = parts[1:]
	}
	ok := l.link.Fetch(ethertype.HeaderSize+int(a.In.Size)-len(data), parts)
	clear(l.parts[:2])
	if !ok {
		return false
	}
	storeWords(dst[len(dst)-last:], l.last[:last])
	l.Fetched++
	return true
}

// storeWords copies src to dst, which is as long, as putWords says.
func storeWords(dst, src []byte) {
	if edge := int(-memory.Address(dst) & (wordSize - 1)); edge > 0 {
		edge = min(edge, len(dst))
		storeEdge(dst[:edge], src)
		dst, src = dst[edge:], src[edge:]
	}
	whole := len(dst) &^ (wordSize - 1)
	if whole == len(dst) && whole > 0 {
		whole -= wordSize
	}
	copy(dst[:whole], src)
	if dst = dst[whole:]; len(dst) == wordSize {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[0])), *(*uint64)(unsafe.Pointer(&src[whole])))
		return
	}
	storeEdge(dst, src[whole:])
}

// storeEdge stores what lies at one end of the words.
func storeEdge(dst, src []byte) {
	for len(dst) > 0 {
		size := 1
		if len(dst) >= 4 && memory.Address(dst)%4 == 0 {
			size = 4
			atomic.StoreUint32((*uint32)(unsafe.Pointer(&dst[0])), *(*uint32)(unsafe.Pointer(&src[0])))
		} else {
			dst[0] = src[0]
		}
		dst, src = dst[size:], src[size:]
	}
}

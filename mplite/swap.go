package mplite

import (
	"encoding/binary"
	"math/bits"
)

// hostBig is flagBig on a big-endian host, else 0.
var hostBig = func() uint8 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return flagBig
	}
	return 0
}()

// putRight makes the payload b, of a message with these flags and this
// signature, right for a receive of elements e. Raw bytes stay as they are.
func (w *world) putRight(b []byte, e *element, flags uint8, sig uint32) {
	if flags&flagBig != w.order && sig != sigRaw && e.sig != sigRaw {
		e.swap(b)
	}
}

// swap reverses the bytes of each whole unit of b in place. Receiver makes
// right: it is called on what came from a host of the other byte order.
func swap(b []byte, unit int) {
	ne := binary.NativeEndian
	switch unit {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			ne.PutUint16(b, bits.ReverseBytes16(ne.Uint16(b)))
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			ne.PutUint32(b, bits.ReverseBytes32(ne.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			ne.PutUint64(b, bits.ReverseBytes64(ne.Uint64(b)))
		}
	}
}

package mesh

import "unsafe"

// InHeap reports whether mem lies in this rank's heap.
func (b *Base) InHeap(mem []byte) bool {
	at, base := uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(unsafe.Pointer(unsafe.SliceData(b.Memory)))
	return at >= base && at-base+uintptr(len(mem)) <= uintptr(len(b.Memory))
}

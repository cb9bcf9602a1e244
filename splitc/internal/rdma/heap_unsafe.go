package rdma

import "unsafe"

// inHeap reports whether b lies in this rank's heap, which is registered.
func (l *Layer) inHeap(b []byte) bool {
	at, base := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(l.Memory)))
	return at >= base && at-base+uintptr(len(b)) <= uintptr(len(l.Memory))
}

//go:build amd64 && !race

package latch

import (
	"sync/atomic"
	"unsafe"
)

// Release, ReleaseBool and release store v where one goroutine stores and others load:
// what was stored before is seen before. That is all that a store does on this
// processor; the Store of sync/atomic is an exchange besides, which waits until all
// has left the processor, for tens of cycles. They are no fence: a load that comes
// after may be done before.
func Release(p *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(p)) = v }

// ReleaseBool is Release of a Bool.
func ReleaseBool(p *atomic.Bool, v bool) {
	*(*uint32)(unsafe.Pointer(p)) = uint32(*(*uint8)(unsafe.Pointer(&v)))
}

func release(p *atomic.Uint32, v uint32) { *(*uint32)(unsafe.Pointer(p)) = v }

//go:build amd64 && !race

package latch

import (
	"sync/atomic"
	"unsafe"
)

// Release, ReleaseBool and release store v where one goroutine stores and others load. A
// goroutine that loads v sees what was stored before it. A plain store does that on this
// processor. The Store of sync/atomic is an exchange, which also waits, for tens of cycles,
// until all stores have left the processor. These are no fence: the processor may do a
// load that follows before the store.
func Release(p *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(p)) = v }

// ReleaseBool is Release of a Bool.
func ReleaseBool(p *atomic.Bool, v bool) {
	*(*uint32)(unsafe.Pointer(p)) = uint32(*(*uint8)(unsafe.Pointer(&v)))
}

func release(p *atomic.Uint32, v uint32) { *(*uint32)(unsafe.Pointer(p)) = v }

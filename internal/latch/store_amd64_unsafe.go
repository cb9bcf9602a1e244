//go:build amd64 && !race

package latch

import (
	"sync/atomic"
	"unsafe"
)

// Release, ReleaseBool and release store v for one goroutine that stores and others that load. A
// goroutine that loads v sees everything that was stored before v. On this processor a plain store
// has this effect. The Store of sync/atomic is an exchange, which also waits, for tens of cycles,
// until all stores have left the processor. These functions are not a fence: the processor may
// execute a later load before the store.
func Release(p *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(p)) = v }

// ReleaseBool is Release of a Bool.
func ReleaseBool(p *atomic.Bool, v bool) {
	*(*uint32)(unsafe.Pointer(p)) = uint32(*(*uint8)(unsafe.Pointer(&v)))
}

func release(p *atomic.Uint32, v uint32) { *(*uint32)(unsafe.Pointer(p)) = v }

package perf

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ring through which handoff hands messages over.
const (
	handChunk = 64 << 10 // bytes that are handed over at a time
	handSlots = 8
)

// shared is memory of both halves: words on cache lines of their own, as
// bouncer's, and the ring.
type shared struct {
	_     [256]byte
	ping  atomic.Uint64 // round trips begun, by the client
	_     [256]byte
	pong  atomic.Uint64 // and answered, by the server
	_     [256]byte
	head  atomic.Uint64 // chunks handed over
	_     [256]byte
	tail  atomic.Uint64 // and read
	_     [256]byte
	slots [handSlots][handChunk]byte
}

const sharedSize = int(unsafe.Sizeof(shared{}))

// mapShared maps a file of sharedSize bytes.
func mapShared(fd int) (*shared, error) {
	base, err := unix.MmapPtr(fd, 0, nil, uintptr(sharedSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	return (*shared)(base), err
}

func (s *shared) unmap() error { return unix.MunmapPtr(unsafe.Pointer(s), uintptr(sharedSize)) }

// touch reads one word of each cache line of b, whose length is a multiple of
// 8 or less than a line.
func touch(b []byte) (sum uint64) {
	for i := 0; i+8 <= len(b); i += 64 {
		sum += *(*uint64)(unsafe.Pointer(&b[i]))
	}
	return sum
}

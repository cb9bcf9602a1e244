package ring

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"golang.org/x/sys/unix"
)

// mapping is the ring's memory. It stays safe to read after the ring is gone:
// retire puts zero pages in the ring's place, for who is just looking at a status
// word, or at a view after Close. The addresses themselves are given back when
// the Link is garbage.
type mapping struct {
	base unsafe.Pointer
	size int
}

// newMapping maps the ring of fd. The pages are made present now rather than
// by a fault per page on the first frames.
func newMapping(fd, size int) (*mapping, error) {
	base, err := unix.MmapPtr(fd, 0, nil, uintptr(size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	m := &mapping{base: base, size: size}
	runtime.AddCleanup(m, func(dead mapping) { unix.MunmapPtr(dead.base, uintptr(dead.size)) }, *m)
	return m, nil
}

// retire replaces the ring by zero pages. The kernel frees the ring when its
// socket is closed too.
func (m *mapping) retire() {
	if m != nil {
		driver.Retire(m.base, uintptr(m.size))
	}
}

// header returns the header of the slot at offset off.
func (m *mapping) header(off int) *unix.Tpacket2Hdr {
	return (*unix.Tpacket2Hdr)(unsafe.Add(m.base, off))
}

// bytes returns n bytes at offset off, without spare capacity.
func (m *mapping) bytes(off, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, off)), n)
}

// status loads the status word of the slot at offset off. It pairs with the
// kernel's barrier: what the kernel wrote before the word is visible after.
func (m *mapping) status(off int) uint32 {
	s := atomic.LoadUint32(&m.header(off).Status)
	runtime.KeepAlive(m)
	return s
}

// prefetch gets what take's caller will read of the slot at offset off: the frame's
// headers, and as much data as a short message has.
func (m *mapping) prefetch(off int) {
	driver.Prefetch(unsafe.Add(m.base, off+64))
	driver.Prefetch(unsafe.Add(m.base, off+128))
	runtime.KeepAlive(m)
}

// handBack gives the slot at offset off to the kernel.
func (m *mapping) handBack(off int) { atomic.StoreUint32(&m.header(off).Status, unix.TP_STATUS_KERNEL) }

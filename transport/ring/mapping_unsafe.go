package ring

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"golang.org/x/sys/unix"
)

// mapping is the memory of the ring. Readers stay safe after the link is closed: retire replaces
// the ring by pages of zeros, for a goroutine that reads a status word at that moment or a view
// after Close. The address range is released when the Link is garbage collected.
type mapping struct {
	base unsafe.Pointer
	size int
}

// newMapping maps the ring of fd. It populates the pages at once, to avoid a page fault per page on
// the first frames.
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

// retire replaces the ring by pages of zeros. The kernel frees the ring when its socket is closed
// as well.
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

// status loads the status word of the slot at offset off. It pairs with the kernel's barrier:
// everything that the kernel wrote before the word is visible afterwards.
func (m *mapping) status(off int) uint32 {
	s := atomic.LoadUint32(&m.header(off).Status)
	runtime.KeepAlive(m)
	return s
}

// prefetch loads into the cache what the caller of take will read from the slot at offset off: the
// headers of the frame, and the data of a short message.
func (m *mapping) prefetch(off int) {
	driver.Prefetch(unsafe.Add(m.base, off+64))
	driver.Prefetch(unsafe.Add(m.base, off+128))
	runtime.KeepAlive(m)
}

// handBack returns the slot at offset off to the kernel.
func (m *mapping) handBack(off int) { atomic.StoreUint32(&m.header(off).Status, unix.TP_STATUS_KERNEL) }

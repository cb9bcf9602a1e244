package xsk

import (
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Sizes of a ring's entries: struct xdp_desc, and an address.
const (
	descSize = int(unsafe.Sizeof(unix.XDPDesc{}))
	addrSize = 8
)

// region is memory outside the Go heap.
type region struct {
	base unsafe.Pointer
	size int
}

// newRegion maps anonymous memory. It populates the pages at once, to avoid a
// page fault per page on the first frames.
func newRegion(size int) (region, error) {
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return region{}, err
	}
	return region{base, size}, nil
}

func (r *region) free() {
	if r.base != nil {
		_ = unix.MunmapPtr(r.base, uintptr(r.size)) // fails only for memory that is not mapped
		*r = region{}
	}
}

// ring is one of the socket's mapped rings. The process writes one of its two
// indices and the kernel the other. Both count entries since the ring was
// created.
type ring struct {
	region
	producer, consumer *uint32
	entries            unsafe.Pointer
}

func mapRing(fd int, page int64, at unix.XDPRingOffset, entry int) (ring, error) {
	size := int(at.Desc) + slots*entry
	base, err := unix.MmapPtr(fd, page, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring{}, err
	}
	return ring{
		region:   region{base, size},
		producer: (*uint32)(unsafe.Add(base, at.Producer)),
		consumer: (*uint32)(unsafe.Add(base, at.Consumer)),
		entries:  unsafe.Add(base, at.Desc),
	}, nil
}

// produced loads the producer's index. Everything that the producer wrote
// before the index is visible afterwards.
func (r *ring) produced() uint32 { return atomic.LoadUint32(r.producer) }

// consumed loads the consumer's index.
func (r *ring) consumed() uint32 { return atomic.LoadUint32(r.consumer) }

// produce stores the producer's index, after the entries before it.
func (r *ring) produce(n uint32) { atomic.StoreUint32(r.producer, n) }

// consume stores the consumer's index.
func (r *ring) consume(n uint32) { atomic.StoreUint32(r.consumer, n) }

// desc returns the n-th descriptor since the ring was made.
func (r *ring) desc(n uint32) *unix.XDPDesc {
	return (*unix.XDPDesc)(unsafe.Add(r.entries, int(n%slots)*descSize))
}

// address returns the n-th address since the ring was made.
func (r *ring) address(n uint32) *uint64 {
	return (*uint64)(unsafe.Add(r.entries, int(n%slots)*addrSize))
}

// fill copies a frame to the room bytes at offset off, in which it is known to
// fit, and returns its length.
func (r *region) fill(off, room uint32, f *transport.Frame) int {
	dst := unsafe.Slice((*byte)(unsafe.Add(r.base, off)), room)
	n := copy(dst, f.Head)
	for _, part := range f.Body {
		n += copy(dst[n:], part)
	}
	return n
}

// register makes umem the socket's UMEM.
func register(fd int, umem region, chunk uint32) error {
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(umem.base)), Len: uint64(umem.size), Size: chunk}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// offsets returns the positions of the indices and entries in the mapped rings.
func offsets(fd int) (at unix.XDPMmapOffsets, err error) {
	n, err := option(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&at), unsafe.Sizeof(at))
	if err == nil && n != unsafe.Sizeof(at) { // before Linux 5.4, with other fields
		err = unix.ENOPROTOOPT
	}
	return at, err
}

// refusals returns how many descriptors of the TX ring the kernel has refused.
func refusals(fd int) (uint64, error) {
	var st unix.XDPStatistics // older kernels set a part of it
	_, err := option(fd, unix.XDP_STATISTICS, unsafe.Pointer(&st), unsafe.Sizeof(st))
	return st.Tx_invalid_descs, err
}

// option gets an option of level SOL_XDP and returns its length.
func option(fd, name int, value unsafe.Pointer, size uintptr) (uintptr, error) {
	n := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(name),
		uintptr(value), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, errno
	}
	return uintptr(n), nil
}

// address is struct sockaddr_xdp.
type address struct {
	family, flags        uint16
	index, queue, shared uint32
}

// bind attaches the socket to a queue, in copy mode. The other mode would take
// the queue away from the rest of the host.
func bind(fd, index, queue int) unix.Errno {
	sa := address{family: unix.AF_XDP, flags: unix.XDP_COPY, index: uint32(index), queue: uint32(queue)}
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&sa)), unsafe.Sizeof(sa))
	return errno
}

// kick makes the kernel send the contents of the TX ring. The call does not
// block, and bypasses Go's scheduler (see driver.LongBytes).
func kick(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

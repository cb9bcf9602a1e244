package vipl

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addressOf returns the virtual address of buf's first byte.
func addressOf(buf []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(buf))) }

// VirtualAddress returns the address of buf's first byte, which together with
// the region's handle is what a peer needs for RDMA.
func VirtualAddress(buf []byte) uint64 { return uint64(addressOf(buf)) }

// mapPages returns zeroed pages outside the Go heap, locked if the limit on
// locked memory (RLIMIT_MEMLOCK) allows it.
func mapPages(size int) (buf []byte, locked bool, err error) {
	page := os.Getpagesize()
	buf, err = unix.Mmap(-1, 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, false, err
	}
	return buf[:size:cap(buf)], unix.Mlock(buf) == nil, nil
}

func unmap(buf []byte) {
	if err := unix.Munmap(buf[:cap(buf)]); err != nil {
		panic("vipl: munmap of the library's own pages: " + err.Error())
	}
}

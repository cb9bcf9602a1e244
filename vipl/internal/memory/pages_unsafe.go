package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addressOf returns the virtual address of buf's first byte.
func addressOf(buf []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(buf))) }

// Address returns the virtual address of buf's first byte.
func Address(buf []byte) uint64 { return uint64(addressOf(buf)) }

// hugePage is the size of a huge page on most machines. Where it is another,
// regions are aligned to what is not a huge page, and stay correct.
const hugePage = 2 << 20

// Map returns zeroed pages outside the Go heap, locked if the limit on
// locked memory (RLIMIT_MEMLOCK) allows it. As many of them as can be are huge
// pages, if the kernel has some: each copy of a long message then needs fewer
// translations, which adds 5 to 10 % to the bandwidth of large frames. A region
// of a huge page or more is mapped to the next multiple, because the kernel
// aligns such mappings; what lies behind the last page in use takes no memory.
func Map(size int) (buf []byte, locked bool, err error) {
	space := roundUp(size, os.Getpagesize())
	if size >= hugePage {
		space = roundUp(size, hugePage)
	}
	buf, err = unix.Mmap(-1, 0, space, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, false, err
	}
	if whole := size / hugePage * hugePage; whole > 0 {
		_ = unix.Madvise(buf[:whole], unix.MADV_HUGEPAGE) // a kernel without huge pages refuses
	}
	return buf[:size:cap(buf)], unix.Mlock(buf[:roundUp(size, os.Getpagesize())]) == nil, nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// retire puts zero pages, which take no space until written, in place of buf:
// a goroutine that is just looking at it reads zeros where Unmap would end the
// process with SIGSEGV. The addresses stay taken until Unmap.
func retire(buf []byte) {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(buf)), uintptr(cap(buf)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	_ = err // the memory then stays as it is, which is as safe
}

// Unmap gives back what Map has returned.
func Unmap(buf []byte) {
	if err := unix.Munmap(buf[:cap(buf)]); err != nil {
		panic("vipl: munmap of the library's own pages: " + err.Error())
	}
}

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

// hugePage is the size of a huge page on most machines. On others the alignment of regions has no
// benefit, but is still correct.
const hugePage = 2 << 20

// Map returns zeroed pages outside the Go heap, locked if the limit on locked memory
// (RLIMIT_MEMLOCK) allows it. It uses as many huge pages as possible if the kernel has free ones.
// Copies of long messages then need fewer address translations, which adds 5 to 10 % to the
// bandwidth of large frames. A region of at least a huge page is mapped to the next multiple,
// because the kernel aligns such mappings. The part after the last used page occupies no memory.
// A page takes memory, and is locked, when it is first used: most buffers of a connection that
// carries little never are.
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
		_ = unix.Madvise(buf[:whole], unix.MADV_HUGEPAGE) // fails on a kernel without huge pages
	}
	return buf[:size:cap(buf)], lock(buf[:roundUp(size, os.Getpagesize())]) == nil, nil
}

// lock makes the kernel lock the pages of buf when they are first used. A kernel older than
// Linux 4.4 locks them all at once.
func lock(buf []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), unix.MLOCK_ONFAULT)
	if errno == unix.ENOSYS {
		return unix.Mlock(buf)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// retire replaces buf with zero pages, which occupy no memory until written. A goroutine that still
// reads buf gets zeros, where Unmap would end the process with SIGSEGV. The addresses stay reserved
// until Unmap.
func retire(buf []byte) {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(buf)), uintptr(cap(buf)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	_ = err // the memory then stays unchanged, which is equally safe
}

// Unmap unmaps pages of Map.
func Unmap(buf []byte) {
	if err := unix.Munmap(buf[:cap(buf)]); err != nil {
		panic("vipl: munmap of the library's own pages: " + err.Error())
	}
}

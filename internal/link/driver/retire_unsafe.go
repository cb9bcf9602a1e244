package driver

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Retire replaces mapped memory by pages of zeros, which occupy no memory until written. A
// goroutine that reads it then sees zeros; after munmap its process would end with SIGSEGV. The
// addresses stay reserved.
func Retire(base unsafe.Pointer, size uintptr) {
	_, err := unix.MmapPtr(-1, 0, base, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	_ = err // the memory then stays mapped, which is as safe
}

package driver

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Retire replaces mapped memory by zero pages, which take no space until
// written: a goroutine that is just looking at it reads zeros where a plain
// munmap would end the process with SIGSEGV. The addresses stay taken.
func Retire(base unsafe.Pointer, size uintptr) {
	_, err := unix.MmapPtr(-1, 0, base, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	_ = err // the memory then stays mapped, which is as safe
}

package progress

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// processor returns the number of the processor that the calling thread is on.
func processor() (cpu int, ok bool) {
	var n uint32
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n), errno == 0
}

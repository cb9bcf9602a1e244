package keep

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// childOf returns the process number of the child in info, or 0.
func childOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), pidOffset)))
}

// pidOffset is the offset of the child's process number in the kernel's siginfo_t: after three
// ints, aligned like a pointer.
const pidOffset = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)

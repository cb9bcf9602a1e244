package keep

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// childOf returns the number of the child that info is about, or 0.
func childOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), pidOffset)))
}

// pidOffset is where the kernel's siginfo_t has the number of a child: behind three ints, aligned
// as a pointer is.
const pidOffset = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)

package afpacket

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sockname returns the family of a socket's address, and the bytes after it. Package unix
// represents the NUL of an abstract name by an @, which the name of a file may also contain.
func sockname(fd int) (family uint16, name []byte, err error) {
	var raw [unix.SizeofSockaddrAny]byte
	size := uint32(len(raw))
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, nil, errno
	}
	if size < 2 {
		return 0, nil, unix.EINVAL
	}
	return binary.NativeEndian.Uint16(raw[:]), raw[2:min(int(size), len(raw))], nil
}

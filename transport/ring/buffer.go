package ring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// keepBytes is how much memory the kernel may use, by its own accounting, for the
// frames that no slot of the ring is long enough for. A window of frames of any size
// fits. The kernel counts twice what was asked for.
const keepBytes = 8 << 20

// growBuffer gives a socket a receive buffer of keepBytes. The error says what to do
// where that is not allowed.
func growBuffer(fd int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, keepBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, keepBytes)
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err == nil && size < keepBytes {
		err = fmt.Errorf("%w: long frames need a buffer of %d bytes, the limit allows %d: sysctl -w net.core.rmem_max=%d, or choose Long auto",
			unix.ENOBUFS, keepBytes, size, keepBytes/2)
	}
	return err
}

package afpacket

import "golang.org/x/sys/unix"

// Sizes of the buffers of sockets. The kernel counts twice what was asked for.
const (
	// SendBuffer is what the send queue may hold, in the kernel's accounting: a few
	// dozen frames of the largest size.
	SendBuffer = 4 << 20
	// KeepBuffer is how much memory the kernel may use, by its own accounting, for the
	// frames that no slot of a ring is long enough for. A window of frames of any size
	// fits.
	KeepBuffer = 8 << 20
)

// GrowBuffer gives a socket a buffer of size bytes at least, as far as allowed: with
// CAP_NET_ADMIN it may pass net.core.rmem_max and wmem_max (option force). It returns what
// the socket has then. One that is large enough, as those of sockets that were given are,
// stays as it is.
func GrowBuffer(fd, option, force, size int) (has int, err error) {
	if has, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || has >= size {
		return has, err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size)
	}
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
}

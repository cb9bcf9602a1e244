package afpacket

import "golang.org/x/sys/unix"

// Sizes of socket buffers. The kernel grants twice the requested size.
const (
	// SendBuffer is the size of the send queue as the kernel counts it: a few dozen frames of the
	// largest size.
	SendBuffer = 4 << 20
	// KeepBuffer is how much memory, as the kernel counts it, it may use for frames longer than a
	// slot of the ring. A window of frames of any size fits.
	KeepBuffer = 8 << 20
)

// GrowBuffer enlarges a socket's buffer to at least size bytes, as far as permitted. With
// CAP_NET_ADMIN it may exceed net.core.rmem_max and wmem_max (option force). It returns the
// resulting size. It does not change a buffer that is already large enough, as those of sockets
// from an agent are.
func GrowBuffer(fd, option, force, size int) (has int, err error) {
	if has, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || has >= size {
		return has, err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size)
	}
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
}

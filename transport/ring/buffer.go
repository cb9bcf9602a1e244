package ring

import (
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"golang.org/x/sys/unix"
)

// growBuffer sets the size of a socket's receive buffer for long frames. If the system does not
// permit the size, the error contains the remedy.
func growBuffer(fd int) error {
	const want = afpacket.KeepBuffer
	size, err := afpacket.GrowBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, want)
	if err == nil && size < want {
		err = fmt.Errorf("%w: long frames need a buffer of %d bytes, the limit allows %d: sysctl -w net.core.rmem_max=%d, or choose Long auto",
			unix.ENOBUFS, want, size, want/2)
	}
	return err
}

package afpacket

import (
	"errors"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// OpenError explains why op failed while a link on s was being opened.
func (s *Station) OpenError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		prog, _ := os.Executable()
		if prog == "" {
			prog = "./prog"
		}
		return fmt.Errorf("%w: %s on %s: %w: run as root, or: sudo setcap cap_net_raw=ep %s, or run it inside `bobnet lab`",
			transport.ErrPermission, op, s.Name, err, prog)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("transport: %s: %w: the kernel has no packet sockets; try: modprobe af_packet", op, err)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%w: %s on %s: %w: see: ip link show %s", transport.ErrLinkDown, op, s.Name, err, s.Name)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("transport: %s on %s: %w: the kernel has no memory for the receive queue; ask for fewer slots", op, s.Name, err)
	}
	return fmt.Errorf("transport: %s on %s: %w", op, s.Name, err)
}

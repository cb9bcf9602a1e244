package afpacket

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Check compares the interface with its state when the station was created; see transport.Checker.
// It uses fd, a packet socket that is bound to the interface.
func (s *Station) Check(fd int) error {
	now, err := driver.Look(fd, s.Index, s.Name)
	if err != nil {
		return err
	}
	if err := s.checkMAC(fd, now.Name); err != nil {
		return err
	}
	if now.MTU < s.MTU {
		return &transport.ChangeError{Interface: now.Name, What: "MTU", Old: strconv.Itoa(s.MTU), New: strconv.Itoa(now.MTU), MTU: now.MTU}
	}
	return now.Down()
}

// checkMAC checks the address of the interface that the socket is bound to.
func (s *Station) checkMAC(fd int, name string) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("transport: address of %s: %w", name, err)
	}
	ll, ok := sa.(*unix.SockaddrLinklayer)
	if !ok || ll.Ifindex != s.Index || int(ll.Halen) != len(s.MAC) {
		// The kernel has unbound the socket. The interface may have returned from another network
		// namespace with the same index.
		return driver.Gone(name)
	}
	if mac := ethertype.MAC(ll.Addr[:len(s.MAC)]); mac != s.MAC {
		return &transport.ChangeError{Interface: name, What: "MAC", Old: s.MAC.String(), New: mac.String()}
	}
	return nil
}

// OpenError explains why op failed while a link on s was being opened.
func (s *Station) OpenError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		prog, _ := os.Executable()
		return fmt.Errorf("%w: %s on %s: %w: run as root, or: %s, or run it inside `bobnet lab`",
			transport.ErrPermission, op, s.Name, err, grant(prog))
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("transport: %s: %w: the kernel has no packet sockets; try: modprobe af_packet", op, err)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %s on %s: %w: see: ip link show %s", transport.ErrGone, op, s.Name, err, s.Name)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%w: %s on %s: %w: see: ip link show %s", transport.ErrLinkDown, op, s.Name, err, s.Name)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("transport: %s on %s: %w: the kernel has no memory for the receive queue; ask for fewer slots", op, s.Name, err)
	}
	return fmt.Errorf("transport: %s on %s: %w", op, s.Name, err)
}

// grant returns the command that lets the program file prog open packet sockets. Binaries built by
// go run are temporary, so granting them rights is useless.
func grant(prog string) string {
	build := ""
	if strings.Contains(prog, "/go-build") {
		build, prog = "go build -o prog PACKAGE (go run removes its program) && ", ""
	}
	return build + "sudo setcap cap_net_raw=ep " + cmp.Or(prog, "./prog")
}

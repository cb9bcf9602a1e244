package afpacket

import (
	"fmt"
	"strconv"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Check compares the interface with what it was when the station was made; see
// transport.Checker. It asks through fd, a packet socket that is bound to the
// interface.
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

// checkMAC looks at the address that the kernel gives the socket.
func (s *Station) checkMAC(fd int, name string) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("transport: address of %s: %w", name, err)
	}
	ll, ok := sa.(*unix.SockaddrLinklayer)
	if !ok || ll.Ifindex != s.Index || int(ll.Halen) != len(s.MAC) {
		// The kernel has unbound the socket. The interface may have come back with the same
		// index, from another network namespace.
		return driver.Gone(name)
	}
	if mac := ethertype.MAC(ll.Addr[:len(s.MAC)]); mac != s.MAC {
		return &transport.ChangeError{Interface: name, What: "MAC", Old: s.MAC.String(), New: mac.String()}
	}
	return nil
}

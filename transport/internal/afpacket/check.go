package afpacket

import (
	"fmt"
	"strconv"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Check compares the interface with what it was when the station was made; see
// transport.Checker. It asks through fd, a packet socket that is bound to the
// interface, because the calling thread may be in another network namespace.
func (s *Station) Check(fd int) error {
	req, err := unix.NewIfreq("")
	if err != nil {
		return err
	}
	req.SetUint32(uint32(s.Index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req); err != nil { // it may have been renamed
		return fmt.Errorf("%w: %s is gone (%w); see: ip link", transport.ErrLinkDown, s.Name, err)
	}
	name := req.Name()
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return fmt.Errorf("transport: flags of %s: %w", name, err)
	}
	flags := req.Uint16()
	if err := s.checkMAC(fd, name); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, req); err != nil {
		return fmt.Errorf("transport: MTU of %s: %w", name, err)
	}
	if mtu := int(req.Uint32()); mtu < s.MTU {
		return &transport.ChangeError{Interface: name, What: "MTU", Old: strconv.Itoa(s.MTU), New: strconv.Itoa(mtu), MTU: mtu}
	}
	switch {
	case flags&unix.IFF_UP == 0:
		return fmt.Errorf("%w: %s is down: ip link set %s up", transport.ErrLinkDown, name, name)
	case flags&unix.IFF_RUNNING == 0:
		return fmt.Errorf("%w: %s has no carrier: is its cable plugged in, is the other end up?", transport.ErrLinkDown, name)
	}
	return nil
}

// checkMAC looks at the address that the kernel gives the socket.
func (s *Station) checkMAC(fd int, name string) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("transport: address of %s: %w", name, err)
	}
	ll, ok := sa.(*unix.SockaddrLinklayer)
	if !ok || int(ll.Halen) != len(s.MAC) {
		return nil // going away
	}
	if mac := ethertype.MAC(ll.Addr[:len(s.MAC)]); mac != s.MAC {
		return &transport.ChangeError{Interface: name, What: "MAC", Old: s.MAC.String(), New: mac.String()}
	}
	return nil
}

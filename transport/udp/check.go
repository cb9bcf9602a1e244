package udp

import (
	"fmt"
	"strconv"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

var _ transport.Checker = (*Link)(nil)

// Check implements transport.Checker. A station's MAC is made of its IP
// address and so does not change with the interface's. It asks through a socket,
// because the calling thread may be in another network namespace.
func (l *Link) Check() error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	return l.check()
}

func (l *Link) check() error {
	s, fd := l.station, l.socks[0]
	req, err := unix.NewIfreq("")
	if err != nil {
		return err
	}
	req.SetUint32(uint32(s.index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req); err != nil { // it may have been renamed
		return fmt.Errorf("%w: %s is gone (%w); see: ip link", transport.ErrLinkDown, s.name, err)
	}
	name := req.Name()
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, req); err != nil {
		return fmt.Errorf("transport: MTU of %s: %w", name, err)
	}
	now := s.candidate
	now.mtu = int(req.Uint32())
	if mtu := now.frameMTU(s.ip); mtu < l.info.MTU {
		return &transport.ChangeError{Interface: name, What: "MTU", Old: strconv.Itoa(s.mtu), New: strconv.Itoa(now.mtu), MTU: mtu}
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return fmt.Errorf("transport: flags of %s: %w", name, err)
	}
	switch flags := req.Uint16(); {
	case flags&unix.IFF_UP == 0:
		return fmt.Errorf("%w: %s is down: ip link set %s up", transport.ErrLinkDown, name, name)
	case flags&unix.IFF_RUNNING == 0:
		return fmt.Errorf("%w: %s has no carrier: is its cable plugged in, is the other end up?", transport.ErrLinkDown, name)
	}
	return nil
}

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

var _ transport.Checker = (*Link)(nil)

// check implements transport.Checker. A station is identified by its IP address: if the interface
// gets another MAC, only Info.Hardware changes. While the interface lacks the address, the link
// sends and receives nothing.
func (l *Link) check() error {
	s := l.station
	i, err := driver.Look(l.socks[0], s.index, s.name)
	if err != nil {
		return err
	}
	if mac, err := hardware(l.socks[0], i.Name); err == nil && mac != *l.hardware.Load() {
		l.hardware.Store(&mac)
	}
	now := s.candidate
	now.mtu = i.MTU
	if mtu := now.frameMTU(s.ip); mtu < l.info.MTU {
		return &transport.ChangeError{Interface: i.Name, What: "MTU", Old: strconv.Itoa(s.mtu), New: strconv.Itoa(now.mtu), MTU: mtu}
	}
	down := i.Down()
	if down != nil && !i.On() {
		return down
	}
	if err := l.checkAddress(i.Name); err != nil { // which does not return with the carrier
		return err
	}
	return down
}

// checkAddress checks that the host still has the station's address, by binding a socket to it. The
// bind always fails: with another error if the host has the address, because the first of socks
// holds the port. One socket can therefore repeat the check. It stays in the link's network
// namespace, whatever the namespace of the calling thread.
func (l *Link) checkAddress(name string) error {
	if err := unix.Bind(l.probe, l.sockaddr(l.first+l.lo)); errors.Is(err, unix.EADDRNOTAVAIL) {
		return &addressError{l.station.ip, name}
	}
	return nil
}

// addressError reports that the interface has lost the station's address. It wraps
// transport.ErrLinkDown.
type addressError struct {
	ip   netip.Addr
	name string
}

func (e *addressError) Error() string {
	return fmt.Sprintf("transport: %s has lost the address %v of the link, or it is not ready yet: give it back: ip address add %v/BITS dev %s (see: ip address show dev %s)",
		e.name, e.ip, e.ip, e.name, e.name)
}

func (e *addressError) Unwrap() error { return transport.ErrLinkDown }

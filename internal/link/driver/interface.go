package driver

import (
	"fmt"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Interface is the state of a network interface at one moment.
type Interface struct {
	Name    string // the current name
	MTU     int
	flags   uint16
	carrier bool
}

// Look returns the current state of the interface with an index, which was called name. It uses a
// socket, because the calling thread may be in another network namespace. If the interface does not
// exist, the error wraps transport.ErrGone.
func Look(socket, index int, name string) (i Interface, err error) {
	req, err := unix.NewIfreq("")
	if err != nil {
		return i, err
	}
	req.SetUint32(uint32(index))
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFNAME, req); err != nil {
		return i, Gone(name)
	}
	i.Name = req.Name()
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, req); err != nil {
		return i, fmt.Errorf("transport: flags of %s: %w", i.Name, err)
	}
	i.flags = req.Uint16()
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFMTU, req); err != nil {
		return i, fmt.Errorf("transport: MTU of %s: %w", i.Name, err)
	}
	i.MTU = int(req.Uint32())
	i.carrier = i.flags&unix.IFF_RUNNING != 0 || i.On() && Carrier(socket, i.Name)
	return i, nil
}

// Gone returns the error for an interface called name that no longer exists.
func Gone(name string) error {
	return fmt.Errorf("%w: %s was deleted, or moved to another network namespace: one of the same name is another one, so start again when it is there (see: ip link)",
		transport.ErrGone, name)
}

// On reports whether the interface is up, with or without a carrier.
func (i Interface) On() bool { return i.flags&unix.IFF_UP != 0 }

// Down returns an error that wraps transport.ErrLinkDown if nothing can be sent
// or received.
func (i Interface) Down() error {
	switch {
	case !i.On():
		return fmt.Errorf("%w: %s is down: ip link set %s up", transport.ErrLinkDown, i.Name, i.Name)
	case !i.carrier:
		return fmt.Errorf("%w: %s has no carrier: is its cable plugged in, is the other end up?", transport.ErrLinkDown, i.Name)
	}
	return nil
}

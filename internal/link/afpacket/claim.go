package afpacket

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Claim holds blocks of ports on one interface against other links, of this
// process or another. Without a daemon: each block is a listening Unix socket
// in the abstract name space, whose names the kernel keeps per network
// namespace and frees when the process ends, however it ends.
type Claim struct {
	Ports transport.PortRange
	fds   []int
}

// ClaimPorts claims the blocks that ports touches, or, when ports is zero, the
// first free block from 1 on. The error for ports that are taken wraps
// EADDRINUSE and says by whom.
func ClaimPorts(index int, name string, typ ethernet.EtherType, ports transport.PortRange) (*Claim, error) {
	if err := driver.CheckPorts(ports); err != nil {
		return nil, err
	}
	c := new(Claim)
	var b int
	var err error
	c.Ports, b, err = driver.ClaimBlocks(ports, func(b int) error { return c.add(index, typ, b) })
	if err != nil {
		c.Release()
		return nil, refusal(index, name, typ, c.Ports, b, err)
	}
	return c, nil
}

// add claims block b.
func (c *Claim) add(index int, typ ethernet.EtherType, b int) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, claimAddr(index, typ, b)); err != nil {
		unix.Close(fd)
		return err
	}
	// It listens so that who finds the block taken can ask whose it is. Nobody
	// accepts, so each question keeps its place in the queue.
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		unix.Close(fd)
		return err
	}
	c.fds = append(c.fds, fd)
	return nil
}

// Sockets returns what holds the claim: a socket for each block, in their order. A process
// that gets them holds it, too.
func (c *Claim) Sockets() []int { return c.fds }

// AdoptClaim returns the claim on ports that sockets hold which another process has given
// to this one. From now on who asks is told that it is this process's. On an error the
// sockets are still the caller's.
func AdoptClaim(index int, typ ethernet.EtherType, ports transport.PortRange, fds []int) (*Claim, error) {
	if err := CheckClaim(index, typ, ports, fds); err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
			return nil, err
		}
	}
	return &Claim{Ports: ports, fds: fds}, nil
}

// Claimed reports whether a process holds the claim on block b of an interface.
func Claimed(index int, typ ethernet.EtherType, b int) bool {
	var c Claim
	defer c.Release()
	return errors.Is(c.add(index, typ, b), unix.EADDRINUSE)
}

// Release gives the ports back. It may be called again. Any process can have connected to the
// sockets and have sent what lingers when it is closed.
func (c *Claim) Release() {
	passfd.Promptly(func() {
		for _, fd := range c.fds {
			unix.Close(fd)
		}
	})
	c.fds = nil
}

func claimAddr(index int, typ ethernet.EtherType, b int) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@bobnet/%d/%04x/%d", index, uint16(typ), b)}
}

// refusal is the error for ports whose block b could not be claimed, or for all
// blocks.
func refusal(index int, name string, typ ethernet.EtherType, ports transport.PortRange, b int, err error) error {
	switch {
	case !errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("transport: cannot claim ports %d..%d on %s: %w", ports.Lo, ports.Hi, name, err)
	case b == driver.Blocks:
		return fmt.Errorf("transport: every block of ports on %s is in use, the first by %s: %w: close a program that uses EtherType %#04x there",
			name, driver.Holder(claimAddr(index, typ, 1).Name), err, uint16(typ))
	}
	held := driver.BlockPorts(b)
	return fmt.Errorf("transport: ports %d..%d on %s overlap ports %d..%d, which %s has claimed: %w: choose other ports, or none to get a free block",
		ports.Lo, ports.Hi, name, held.Lo, held.Hi, driver.Holder(claimAddr(index, typ, b).Name), err)
}

// Shown returns the claim on ports that sockets hold, after CheckClaim, without telling
// others that it is this process's.
func Shown(ports transport.PortRange, fds []int) *Claim { return &Claim{Ports: ports, fds: fds} }

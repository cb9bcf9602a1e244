package shm

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Ports are claimed in blocks, as on an Ethernet interface.
const (
	blockSize = 1024
	blocks    = (1 << 16) / blockSize
)

func blockOf(port uint16) int { return int(port) / blockSize }

// blockPorts returns the ports of r that lie in block b.
func blockPorts(b int, r transport.PortRange) transport.PortRange {
	return transport.PortRange{Lo: max(r.Lo, uint16(b*blockSize), 1), Hi: min(r.Hi, uint16(b*blockSize+blockSize-1))}
}

// segment is where the stations with one address and EtherType meet.
type segment struct {
	mac ethertype.MAC
	typ ethernet.EtherType
}

// prefix is what the names of the segment's sockets start with.
func (s segment) prefix() string { return fmt.Sprintf("@bobnet-host/%v/%04x/", s.mac, uint16(s.typ)) }

// address is the name of the socket that holds block b.
func (s segment) address(b int) *net.UnixAddr {
	return &net.UnixAddr{Name: s.prefix() + strconv.Itoa(b), Net: "unixgram"}
}

// blockAt returns the block whose socket has the address a. The kernel vouches
// for it: nobody else can have a socket of that name.
func (s segment) blockAt(a *net.UnixAddr) (b int, ok bool) {
	if a == nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(a.Name, s.prefix())
	b, err := strconv.Atoi(number)
	return b, ok && err == nil && b >= 0 && b < blocks
}

// settle claims the link's ports, or the first free block.
func (l *Link) settle() error {
	r := l.info.Ports
	if r == (transport.PortRange{}) {
		return l.firstFree()
	}
	if r.Lo == 0 || r.Hi < r.Lo {
		return fmt.Errorf("shm: ports %d..%d: %w: want 1 <= Lo <= Hi <= 65535 (port 0 reaches every link)", r.Lo, r.Hi, unix.EINVAL)
	}
	for b := blockOf(r.Lo); b <= blockOf(r.Hi); b++ {
		if err := l.bind(b); err != nil {
			return fmt.Errorf("shm: cannot claim ports %d..%d at %v: %w: choose other ports, or none to get a free block", r.Lo, r.Hi, l.info.MAC, err)
		}
	}
	return nil
}

func (l *Link) firstFree() error {
	for b := 1; b < blocks; b++ {
		switch err := l.bind(b); {
		case err == nil:
			l.info.Ports = blockPorts(b, transport.AllPorts)
			return nil
		case !errors.Is(err, unix.EADDRINUSE):
			return fmt.Errorf("shm: cannot claim ports at %v: %w", l.info.MAC, err)
		}
	}
	return fmt.Errorf("shm: every block of ports at %v is in use: %w: close a program that uses EtherType %#04x there",
		l.info.MAC, unix.EADDRINUSE, uint16(l.info.EtherType))
}

// bind claims block b.
func (l *Link) bind(b int) error {
	conn, err := net.ListenUnixgram("unixgram", l.segment.address(b))
	if err != nil {
		return err
	}
	l.sockets = append(l.sockets, conn)
	return nil
}

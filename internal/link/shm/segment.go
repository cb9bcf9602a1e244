package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Ports are claimed in blocks, as on an Ethernet interface.
const blocks = driver.Blocks

// blockPorts returns the ports of r that lie in block b.
func blockPorts(b int, r transport.PortRange) transport.PortRange {
	of := driver.BlockPorts(b)
	return transport.PortRange{Lo: max(r.Lo, of.Lo), Hi: min(r.Hi, of.Hi)}
}

// segment is where stations meet.
type segment struct {
	mac ethertype.MAC
	typ ethernet.EtherType
	at  string // Config.Segment

	directory string // Config.Directory
}

// origin returns a source address with the EtherType behind it, as the eight
// bytes of a frame.
func origin(mac ethertype.MAC, typ ethernet.EtherType) uint64 {
	return binary.BigEndian.Uint64(binary.BigEndian.AppendUint16(mac[:], uint16(typ)))
}

// prefix is what the names of the segment's sockets start with, but those of bells.
func (s segment) prefix() string {
	if s.directory != "" {
		return s.directory + "/"
	}
	return s.abstract()
}

func (s segment) abstract() string {
	return fmt.Sprintf("@bobnet-host/%v/%04x/%s/", s.mac, uint16(s.typ), s.at)
}

// address is the name of the socket that holds block b.
func (s segment) address(b int) *net.UnixAddr {
	return &net.UnixAddr{Name: s.prefix() + strconv.Itoa(b), Net: "unixgram"}
}

// bell is the name of the bell of a link.
func (s segment) bell(instance uint64) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("%sbell/%016x", s.abstract(), instance)}
}

// blockAt returns the block whose socket has a name. The kernel vouches
// for it, because nobody else can have a socket of that name: of that very one,
// since others spell the same number.
func (s segment) blockAt(name string) (b int, ok bool) {
	number, ok := strings.CutPrefix(name, s.prefix())
	b, err := strconv.Atoi(number)
	return b, ok && err == nil && b >= 0 && b < blocks && name == s.address(b).Name
}

// claimPorts claims the link's ports, or the first free block.
func (l *Link) claimPorts() error {
	if err := driver.CheckPorts(l.info.Ports); err != nil {
		return err
	}
	claimed, b, err := driver.ClaimBlocks(l.info.Ports, l.bind)
	switch {
	case b == blocks && err != nil:
		return fmt.Errorf("shm: every block of ports at %v is in use, the first by %s: %w: close a program that uses EtherType %#04x there",
			l.info.MAC, driver.Holder(l.segment.address(1).Name), err, uint16(l.info.EtherType))
	case errors.Is(err, unix.EADDRINUSE):
		held := driver.BlockPorts(b)
		return fmt.Errorf("shm: ports %d..%d at %v overlap ports %d..%d, which %s has claimed: %w: choose other ports, or none to get a free block",
			claimed.Lo, claimed.Hi, l.info.MAC, held.Lo, held.Hi, driver.Holder(l.segment.address(b).Name), err)
	case err != nil:
		return fmt.Errorf("shm: cannot claim ports %d..%d at %v: %w",
			claimed.Lo, claimed.Hi, l.info.MAC, err)
	}
	l.info.Ports = claimed
	return nil
}

// socket returns the socket that holds our block own.
func (l *Link) socket(own int) *net.UnixConn { return l.sockets[own-driver.Block(l.info.Ports.Lo)] }

// bind claims block b, or takes the socket that was given.
func (l *Link) bind(b int) error {
	if len(l.given) > 0 {
		conn, err := adopt(l.given[0])
		if l.given = l.given[1:]; err != nil {
			return err
		}
		l.sockets = append(l.sockets, conn)
		l.places[b] = new([blocks]place)
		return nil
	}
	asking := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if gone := raw.Control(func(fd uintptr) { err = askWho(int(fd)) }); gone != nil {
			return gone
		}
		return err
	}}
	conn, err := asking.ListenPacket(context.Background(), "unixgram", l.segment.address(b).Name)
	if err != nil {
		return err
	}
	l.sockets = append(l.sockets, conn.(*net.UnixConn))
	l.places[b] = new([blocks]place)
	return nil
}

// adopt makes a connection of a datagram socket, which it takes over.
func adopt(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "bobnet")
	defer f.Close()
	if err := askWho(fd); err != nil {
		return nil, os.NewSyscallError("SO_PASSCRED", err)
	}
	conn, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("shm: a socket that was given is not a Unix socket: %w", unix.EINVAL)
	}
	return u, nil
}

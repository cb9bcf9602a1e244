package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/runsocket"
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

// segment identifies the stations that can reach each other.
type segment struct {
	mac ethertype.MAC
	typ ethernet.EtherType
	at  string // Config.Segment

	directory string // Config.Directory
	files     string // the directory of root's sockets (package runsocket); "" if there is none
}

// origin returns the bytes of a frame's source address and EtherType as one word.
func origin(mac ethertype.MAC, typ ethernet.EtherType) uint64 {
	return binary.BigEndian.Uint64(binary.BigEndian.AppendUint16(mac[:], uint16(typ)))
}

// prefix returns the prefix of the names of the segment's sockets, except bells.
func (s segment) prefix() string {
	if s.directory != "" {
		return s.directory + "/"
	}
	return s.abstract()
}

func (s segment) abstract() string {
	return fmt.Sprintf("@bobnet-host/%v/%04x/%s/", s.mac, uint16(s.typ), s.at)
}

// name returns the name of the socket that holds block b.
func (s segment) name(b int) runsocket.Name {
	name := runsocket.Name{Abstract: s.prefix() + strconv.Itoa(b)}
	if s.files != "" {
		name.File = s.files + "/" + strconv.Itoa(b)
	}
	return name
}

// locate determines the directory of root's sockets, in the network namespace of the calling
// thread.
func (s *segment) locate() {
	if s.directory == "" {
		s.files = strings.TrimSuffix(runsocket.NameOf(s.abstract()).File, ".sock")
	}
}

// bell returns the name of a link's bell.
func (s segment) bell(instance uint64) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("%sbell/%016x", s.abstract(), instance)}
}

// blockAt returns the block whose socket has a name. ok is false if that socket does not belong to
// a process of user uid. The kernel vouches for an abstract name, because no other process can have
// a socket with the same name; it must have the canonical spelling. But its process does not own
// the block if root, or a process that root has given it to, has the file. For a file, the kernel
// reports only the name, and in another mount namespace it may be another file: so the process must
// belong to the file's owner.
func (s segment) blockAt(name string, uid uint32) (b int, ok bool) {
	number, ok := strings.CutPrefix(name, s.prefix())
	if !ok && s.files != "" {
		number, ok = strings.CutPrefix(name, s.files+"/")
	}
	b, err := strconv.Atoi(number)
	if !ok || err != nil || b < 0 || b >= blocks {
		return b, false
	}
	switch at := s.name(b); {
	case name == at.Abstract && s.directory == "":
		return b, !at.Alive()
	case name == at.Abstract || name == at.File:
		var stat unix.Stat_t
		return b, unix.Lstat(name, &stat) == nil && stat.Uid == uid
	}
	return b, false
}

// claimPorts claims the link's ports, or the first free block.
func (l *Link) claimPorts() error {
	if err := driver.CheckPorts(l.info.Ports); err != nil {
		return err
	}
	whichever := l.info.Ports == transport.PortRange{}
	// If the link has claimed its ports on an interface, they are its own. In a segment without an
	// interface all users are equal, and root takes a block from another user only if none is free.
	force := l.claim != nil || l.served
	claimed, b, err := driver.ClaimBlocks(l.info.Ports, func(b int) error { return l.bind(b, force) })
	if whichever && b == blocks {
		claimed, b, err = driver.ClaimBlocks(l.info.Ports, func(b int) error { return l.bind(b, true) })
	}
	switch {
	case b == blocks && err != nil:
		return fmt.Errorf("shm: every block of ports at %v is in use, the first by %s: %w: close a program that uses EtherType %#04x there",
			l.info.MAC, driver.Holder(l.segment.name(1).Current()), err, uint16(l.info.EtherType))
	case errors.Is(err, unix.EADDRINUSE):
		held := driver.BlockPorts(b)
		return fmt.Errorf("shm: ports %d..%d at %v overlap ports %d..%d, which %s has claimed: %w: choose other ports, or none to get a free block",
			claimed.Lo, claimed.Hi, l.info.MAC, held.Lo, held.Hi, driver.Holder(l.segment.name(b).Current()), err)
	case err != nil:
		return fmt.Errorf("shm: cannot claim ports %d..%d at %v: %w",
			claimed.Lo, claimed.Hi, l.info.MAC, err)
	}
	l.info.Ports = claimed
	return nil
}

// socket returns the socket that holds our block own.
func (l *Link) socket(own int) *net.UnixConn { return l.sockets[own-driver.Block(l.info.Ports.Lo)] }

// bind claims block b, or uses the socket from Config.Sockets. With force, root claims the block
// even if another user has its abstract name.
func (l *Link) bind(b int, force bool) error {
	if len(l.given) > 0 {
		fd := l.given[0]
		l.given = l.given[1:]
		return l.hold(b, fd)
	}
	name := l.segment.name(b)
	fd, file, err := bindBlock(name, force)
	if err != nil {
		return err
	}
	if file {
		l.files = append(l.files, name)
	}
	return l.hold(b, fd)
}

// bindBlock returns a socket with a block's name, and whether that is a file of root's.
func bindBlock(name runsocket.Name, force bool) (fd int, file bool, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, false, os.NewSyscallError("socket", err)
	}
	var counts func(runsocket.Holder) bool
	if force {
		counts = func(h runsocket.Holder) bool { return h.UID == 0 }
	}
	if file, err = name.Bind(fd, counts); err != nil {
		unix.Close(fd)
		return -1, false, os.NewSyscallError("bind", err)
	}
	return fd, file, nil
}

// Bind returns the sockets of the blocks of cfg.Ports at the station cfg.Address, for
// Config.Sockets of a process of user uid. If root calls it, it succeeds even if another user has
// taken their names. The caller closes its copies after passing them on. The error wraps EADDRINUSE
// if another link has a block.
func Bind(cfg *Config, uid uint32) (fds []int, err error) {
	s := segment{mac: cfg.Address, typ: cfg.EtherType, at: cfg.Segment}
	s.locate()
	for b := driver.Block(cfg.Ports.Lo); b <= driver.Block(cfg.Ports.Hi); b++ {
		name := s.name(b)
		fd, file, err := bindBlock(name, true)
		if err == nil {
			fds = append(fds, fd)
		}
		if err == nil && file {
			err = name.GiveTo(uid)
		}
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			return nil, fmt.Errorf("shm: ports of block %d at %v: %w", b, cfg.Address, err)
		}
	}
	return fds, nil
}

// hold makes fd the socket of block b, and owns it.
func (l *Link) hold(b, fd int) error {
	conn, err := adopt(fd)
	if err != nil {
		return err
	}
	l.sockets = append(l.sockets, conn)
	l.places[b] = new([blocks]place)
	return nil
}

// adopt returns a datagram socket as a connection, and owns it.
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
		return nil, fmt.Errorf("shm: a socket in Config.Sockets is not a Unix socket: %w", unix.EINVAL)
	}
	return u, nil
}

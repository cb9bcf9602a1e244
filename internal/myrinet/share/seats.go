package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// The blocks of ports of a card of root's are sockets that are files of a directory of root's. The
// card makes them and gives them to programs, so that no user takes more than a part of them, or a
// name before its program. A block belongs to the owner of its file. It is free when no process has
// the socket any more: the kernel closes it when its program ends.

// wish is what a program asks for, in a line of JSON.
type wish struct{ Ports transport.PortRange } // zero: the first free block

// grant is the card's answer. With it come the sockets of the blocks.
type grant struct {
	Error string `json:",omitempty"`
	Taken bool   `json:",omitempty"` // another program has the ports
	Ports transport.PortRange
}

// maxControl is how long a wish or a grant may be, in bytes.
const maxControl = 1 << 10

// seats are the blocks of a card.
type seats struct {
	directory string     // "" if programs make their sockets themselves
	mu        sync.Mutex // held while a wish is answered
}

// open makes the directory, and removes the file of the card's own block if a card has left it.
func (s *seats) open(at iface.Interface) (err error) {
	if s.directory, err = runsocket.Directory("ports/" + control(at)); err == nil && s.directory != "" {
		_, _, err = s.owner(driver.Block(cardPort))
	}
	return err
}

// admitAll lets programs of all users send to the card's own socket, which judges each.
func (s *seats) admitAll() error {
	if s.directory == "" {
		return nil
	}
	return os.Chmod(s.file(driver.Block(cardPort)), 0o666)
}

func (s *seats) file(b int) string { return filepath.Join(s.directory, strconv.Itoa(b)) }

// owner returns the user who has a block, if anybody has it.
func (s *seats) owner(b int) (uid uint32, taken bool, err error) {
	info, err := os.Lstat(s.file(b))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: s.file(b)}), unix.ECONNREFUSED) {
		return 0, false, os.Remove(s.file(b))
	}
	return info.Sys().(*syscall.Stat_t).Uid, true, nil
}

// answer answers a wish of a program of user uid.
func (s *seats) answer(conn *net.UnixConn, uid uint32, said []byte) error {
	var w wish
	if err := json.Unmarshal(said, &w); err != nil || s.directory == "" {
		return fmt.Errorf("share: no wish: %w", errors.Join(err, unix.EPROTO))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ports, fds, err := s.take(uid, w.Ports)
	defer passfd.Promptly(func() { closeAll(fds) }) // the program has its own
	g := grant{Ports: ports, Taken: errors.Is(err, unix.EADDRINUSE)}
	if err != nil {
		g.Error = err.Error()
	}
	line, err := json.Marshal(&g)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// A program that has not taken the answers before gets none, and holds up no other.
	conn.SetWriteDeadline(time.Now().Add(answerPatience))
	_, _, err = conn.WriteMsgUnix(append(line, '\n'), rights, nil)
	return err
}

const answerPatience = 100 * time.Millisecond

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// look returns which blocks are taken, how many a user has, and the first that is free, or 0.
func (s *seats) look(uid uint32) (taken [driver.Blocks]bool, own, free int, err error) {
	for b := driver.Blocks - 1; b >= driver.Block(cardPorts.Lo); b-- {
		who, has, err := s.owner(b)
		if err != nil {
			return taken, 0, 0, err
		}
		if taken[b] = has; !has {
			free = b
		} else if who == uid {
			own++
		}
	}
	return taken, own, free, nil
}

// take makes the sockets of the blocks of ports, or of the first block that is free. s.mu is held.
func (s *seats) take(uid uint32, ports transport.PortRange) (got transport.PortRange, fds []int, err error) {
	if ports != (transport.PortRange{}) && (ports.Lo < cardPorts.Lo || ports.Hi < ports.Lo) {
		return ports, nil, fmt.Errorf("ports %d to %d: %w: those below %d are the card's", ports.Lo, ports.Hi, unix.EINVAL, cardPorts.Lo)
	}
	taken, own, free, err := s.look(uid)
	if err != nil {
		return ports, nil, err
	}
	if ports == (transport.PortRange{}) {
		if free == 0 {
			return ports, nil, fmt.Errorf("every block of ports is in use: %w", unix.EADDRINUSE)
		}
		ports = driver.BlockPorts(free)
	}
	first, last := driver.Block(ports.Lo), driver.Block(ports.Hi)
	if uid != 0 && int64(uid) != int64(os.Geteuid()) && own+last-first+1 > mostOfUser {
		return ports, nil, fmt.Errorf("user %d has %d blocks of ports of the card, and wants %d more: %d are the most", uid, own, last-first+1, mostOfUser)
	}
	for b := first; b <= last; b++ {
		fd := -1
		if taken[b] {
			err = fmt.Errorf("another program has ports %d to %d: %w", driver.BlockPorts(b).Lo, driver.BlockPorts(b).Hi, unix.EADDRINUSE)
		} else {
			fd, err = s.socket(b, uid)
		}
		if err != nil {
			closeAll(fds)
			return ports, nil, err
		}
		fds = append(fds, fd)
	}
	return ports, fds, nil
}

// socket makes the socket of a block for a user.
func (s *seats) socket(b int, uid uint32) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: s.file(b)})
	}
	if err == nil {
		err = errors.Join(os.Chmod(s.file(b), 0o666), os.Lchown(s.file(b), int(uid), -1))
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("socket of block %d: %w", b, err)
	}
	return fd, nil
}

// ask asks a card for ports, and returns them with their sockets.
func ask(conn *net.UnixConn, ports transport.PortRange) (got transport.PortRange, fds []int, err error) {
	who, err := passfd.PeerOf(conn)
	if err != nil {
		return got, nil, err
	}
	line, err := json.Marshal(&wish{ports})
	if err != nil {
		return got, nil, err
	}
	conn.SetDeadline(time.Now().Add(controlPatience))
	defer conn.SetDeadline(time.Time{})
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return got, nil, fmt.Errorf("share: asking the card for ports: %w", err)
	}
	said := make([]byte, maxControl)
	m, err := passfd.Receive(conn, who.Uid, said)
	var g grant
	if err == nil {
		err = json.Unmarshal(said[:m.N], &g)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("share: the card's answer about ports: %w", err)
	case g.Taken:
		err = fmt.Errorf("share: the card refuses ports: %w: %s", unix.EADDRINUSE, g.Error)
	case g.Error != "":
		err = fmt.Errorf("share: the card refuses ports: %s", g.Error)
	case len(m.FDs) != driver.Block(g.Ports.Hi)-driver.Block(g.Ports.Lo)+1:
		err = fmt.Errorf("share: the card has sent %d sockets for ports %d to %d: %w", len(m.FDs), g.Ports.Lo, g.Ports.Hi, unix.EPROTO)
	default:
		return g.Ports, m.FDs, nil
	}
	passfd.Close(who.Uid, m.FDs...)
	return got, nil, err
}

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

// On a card that root serves, each block of ports is a socket that is a file in a directory of
// root's. The card creates the sockets and passes them to programs, so that no user can take more
// than a share of the blocks, or a name before the program it is for. A block belongs to the owner
// of its file. It is free when no process has the socket: the kernel closes the socket when its
// program ends.

// wish is a program's request for ports, a line of JSON.
type wish struct{ Ports transport.PortRange } // zero: the first free block

// grant is the card's answer. The sockets of the blocks come with it.
type grant struct {
	Error string `json:",omitempty"`
	Taken bool   `json:",omitempty"` // another program has the ports
	Ports transport.PortRange
}

// maxControl is the maximum length of a wish or grant in bytes.
const maxControl = 1 << 10

// seats manages the port blocks of a card.
type seats struct {
	directory string     // "" if programs create their sockets themselves
	mu        sync.Mutex // held while a wish is answered
}

// prepareDirectory creates the directory, and removes the socket of the card's own block that an earlier card
// may have left.
func (s *seats) prepareDirectory(at iface.Interface) (err error) {
	if s.directory, err = runsocket.Directory("ports/" + control(at)); err == nil && s.directory != "" {
		_, _, err = s.owner(driver.Block(cardPort))
	}
	return err
}

// admitAll allows programs of all users to send to the card's own socket, where each is checked.
func (s *seats) admitAll() error {
	if s.directory == "" {
		return nil
	}
	return os.Chmod(s.file(driver.Block(cardPort)), 0o666)
}

func (s *seats) file(b int) string { return filepath.Join(s.directory, strconv.Itoa(b)) }

// owner returns the user who has a block, and whether it is taken.
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

// answer handles a wish of a program of user uid.
func (s *seats) answer(conn *net.UnixConn, uid uint32, said []byte) error {
	var w wish
	if err := json.Unmarshal(said, &w); err != nil || s.directory == "" {
		return fmt.Errorf("share: invalid request for ports: %w", errors.Join(err, unix.EPROTO))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ports, fds, err := s.openSockets(uid, w.Ports)
	defer passfd.Promptly(func() { closeAll(fds) }) // the program has its own copies
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
	// A program that has not read its previous answers gets no answer, so it cannot delay other
	// programs.
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

// look returns which blocks are taken, how many uid has, and the first free block, or 0.
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

// openSockets creates the sockets of the blocks of ports, or of the first free block. The caller must hold
// s.mu.
func (s *seats) openSockets(uid uint32, ports transport.PortRange) (got transport.PortRange, fds []int, err error) {
	if ports != (transport.PortRange{}) && (ports.Lo < cardPorts.Lo || ports.Hi < ports.Lo) {
		return ports, nil, fmt.Errorf("ports %d to %d: %w: ports below %d are reserved for the card", ports.Lo, ports.Hi, unix.EINVAL, cardPorts.Lo)
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
		return ports, nil, fmt.Errorf("user %d has %d blocks of ports of the card, and requests %d more: the maximum is %d", uid, own, last-first+1, mostOfUser)
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

// socket creates the socket of a block for a user.
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

// ask requests ports from a card, and returns them with their sockets.
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

package runsocket

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the name of a socket that represents a resource of the host, such as a block of ports. A
// process owns the resource if its socket has the name.
//
// A process first tries the abstract name, which any user can take. If another user has taken it, a
// process of root binds its socket to the file instead, which only root can create. So a user
// without privileges can neither keep the resource from root nor pose as its owner: a process that
// takes the abstract name must check that the file does not exist, and a process that looks for the
// owner checks the file first.
type Name struct {
	Abstract string // begins with an @
	File     string // path of the file; "" if it is unknown
}

// NameOf returns the Name with a given abstract name, in the network namespace of the calling
// thread.
func NameOf(abstract string) Name {
	file, _ := path(abstract[1:]) // without /proc only the abstract name is usable
	return Name{Abstract: abstract, File: file}
}

// Bind binds a socket to the name; a stream socket then listens. It reports whether it has used the
// file. The error wraps EADDRINUSE if another process has the name. After an error the caller must
// close the socket.
//
// counts decides whether a process that already has the abstract name owns the resource. If it
// returns false and this process is root, Bind uses the file. If counts is nil, or the kernel does
// not report the user who created the socket (Linux 5.3 and newer do), every such process owns the
// resource.
func (n Name) Bind(fd int, counts func(h Holder) bool) (file bool, err error) {
	for range bindTries {
		err = bind(fd, n.Abstract)
		switch {
		case err == nil && n.Alive():
			return false, unix.EADDRINUSE
		case !errors.Is(err, unix.EADDRINUSE) || counts == nil:
			return false, err
		}
		found, yes := n.holder(fd, counts)
		if yes {
			return false, err
		}
		if found {
			return n.force(fd, counts)
		}
	}
	return false, unix.EADDRINUSE
}

// bindTries is the number of attempts of Bind if the kernel lists no holder of a name that is in
// use: the holder has ended, or the list changed while the kernel wrote it.
const bindTries = 10

// force binds a socket to the file, because a process that does not count has the abstract name.
func (n Name) force(fd int, counts func(h Holder) bool) (file bool, err error) {
	if n.bindFile(fd, lockPatience) != nil {
		return false, unix.EADDRINUSE
	}
	// A process that has taken the abstract name since then either finds the file, or holder finds
	// that process.
	if _, yes := n.holder(fd, counts); yes {
		os.Remove(n.File)
		return false, unix.EADDRINUSE
	}
	return true, nil
}

// holder reports whether a process has the abstract name, for a socket of the type of fd, and
// whether that process counts. If the kernel does not list sockets, yes is true.
func (n Name) holder(fd int, counts func(h Holder) bool) (found, yes bool) {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return false, true
	}
	h, found, err := holderOf(n.Abstract, typ)
	return found, err != nil || found && counts(h)
}

// TryFile binds a socket to the file; a stream socket then listens. The error wraps EADDRINUSE if
// another process has the file, and EWOULDBLOCK if another process has locked the directory. Only
// root can do this. TryFile does not wait.
func (n Name) TryFile(fd int) error { return n.bindFile(fd, 0) }

func (n Name) bindFile(fd int, patience time.Duration) error {
	if os.Geteuid() != 0 || n.File == "" {
		return unix.EACCES
	}
	if n.Alive() { // check without the lock first, because that is cheap
		return unix.EADDRINUSE
	}
	unlock, err := lock(filepath.Dir(n.File), patience)
	if err != nil {
		return err
	}
	defer unlock()
	if n.Alive() {
		return unix.EADDRINUSE
	}
	if err := os.Remove(n.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := bind(fd, n.File); err != nil {
		return err
	}
	return os.Chmod(n.File, 0o666)
}

// bind binds a socket; a stream socket then listens, so that other processes can connect and read
// its owner's credentials. No process accepts, so each such connection stays in the queue.
func bind(fd int, name string) error {
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return err
	}
	if typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_STREAM {
		return err
	}
	return unix.Listen(fd, unix.SOMAXCONN)
}

// Alive reports whether a process has the file.
func (n Name) Alive() bool {
	if n.File == "" {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: n.File})
	return err == nil || err == unix.EPROTOTYPE || err == unix.EPERM // EPROTOTYPE: a socket of another type; EPERM: a connected socket
}

// Current returns the file if a process has it, and otherwise the abstract name.
func (n Name) Current() string {
	if n.Alive() {
		return n.File
	}
	return n.Abstract
}

// Clean removes the file if no process has it. Call it when the socket is closed.
func (n Name) Clean() {
	if os.Geteuid() != 0 || n.File == "" {
		return
	}
	unlock, err := lock(filepath.Dir(n.File), lockPatience)
	if err != nil {
		return
	}
	defer unlock()
	if dead(n.File) {
		os.Remove(n.File)
	}
}

// GiveTo makes user uid, whose process gets the socket, the owner of the file.
func (n Name) GiveTo(uid uint32) error { return os.Lchown(n.File, int(uid), -1) }

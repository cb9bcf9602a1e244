package runsocket

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the name of a socket that stands for a resource of the host, such as a block of ports. A
// process has the resource if its socket has the name.
//
// The name is in the abstract name space as long as that is free there. Any user can take it there
// first. Then a process of root's binds its socket to the file instead, which only root can make. So
// a user without rights neither keeps root from the resource nor poses as its owner: whoever takes
// the abstract name must look for the file, and whoever looks for the owner finds the file first.
type Name struct {
	Abstract string // begins with an @
	File     string // "" if there is no directory for it
}

// NameOf returns the name whose abstract form is given, in the network namespace of the calling thread.
func NameOf(abstract string) Name {
	file, _ := path(abstract[1:]) // without /proc there are only abstract names
	return Name{Abstract: abstract, File: file}
}

// Bind gives the name to a socket; a stream socket listens then. It reports whether that is the file. The
// error wraps EADDRINUSE if another process has the name, and the caller closes the socket.
//
// If counts is not nil and this process is root, a process that has the abstract name keeps it only if
// counts says so of the user who has made the socket, and of whether the socket listens. If the kernel
// does not tell who that is (Linux 5.3 does), each process counts.
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

// bindTries is how often Bind tries if the kernel lists no holder of a name that is taken: it has gone, or
// the list changed while the kernel made it.
const bindTries = 10

// force gives the file to a socket although a process that does not count has the abstract name.
func (n Name) force(fd int, counts func(h Holder) bool) (file bool, err error) {
	if n.bindFile(fd, lockPatience) != nil {
		return false, unix.EADDRINUSE
	}
	// Who has taken the abstract name since then either finds the file or is found here.
	if _, yes := n.holder(fd, counts); yes {
		os.Remove(n.File)
		return false, unix.EADDRINUSE
	}
	return true, nil
}

// holder reports whether a process has the abstract name, for a socket of the type of fd, and whether it
// counts. If the kernel does not tell, it counts.
func (n Name) holder(fd int, counts func(h Holder) bool) (found, yes bool) {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return false, true
	}
	h, found, err := holderOf(n.Abstract, typ)
	return found, err != nil || found && counts(h)
}

// TryFile gives the file to a socket; a stream socket listens then. The error wraps EADDRINUSE if
// another process has it, and EWOULDBLOCK if another process looks at the directory at the moment. Only root
// can do this. It does not wait.
func (n Name) TryFile(fd int) error { return n.bindFile(fd, 0) }

func (n Name) bindFile(fd int, patience time.Duration) error {
	if os.Geteuid() != 0 || n.File == "" {
		return unix.EACCES
	}
	if n.Alive() { // looks without the lock first, because that is cheap
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

// bind binds a socket; a stream socket listens then, so that others can ask whose it is. Nobody
// accepts, so each question keeps its place in the queue.
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
	return err == nil || err == unix.EPROTOTYPE || err == unix.EPERM // a socket of another type; one that is connected
}

// Current returns the form of the name that a process has: the file if one has it, or else the abstract one.
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

// GiveTo makes user uid the owner of the file, whose process gets the socket.
func (n Name) GiveTo(uid uint32) error { return os.Lchown(n.File, int(uid), -1) }

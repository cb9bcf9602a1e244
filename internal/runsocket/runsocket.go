// Package runsocket names the Unix sockets at which programs of a host find a server.
//
// Names in the abstract name space belong to whoever takes them first, so that any user could keep
// root's servers from starting, or pose as one. So root's servers listen at files in a directory
// of root's, /run/bobnet. A server of another user's, or one that cannot write there, has a name
// in the abstract name space. Clients look for root's first, and then judge by the kernel's word
// whose a server is.
//
// Names of resources of the host, such as blocks of ports, are abstract as long as nobody without rights
// has taken them: see Name.
//
// A directory is shared by network namespaces, which have servers of their own: a file's name
// has the namespace's number in it.
package runsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// directory is that of root's sockets. A variable for tests.
var directory = "/run/bobnet"

// Abstract returns the name of a server in the abstract name space.
func Abstract(name string) string { return "@bobnet/" + name }

// path returns the file of a server of root's in the network namespace of the calling thread.
func path(name string) (string, error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return "", &os.PathError{Op: "stat", Path: "/proc/thread-self/ns/net", Err: err}
	}
	return filepath.Join(directory, fmt.Sprintf("net-%d", ns.Ino), strings.ReplaceAll(name, "/", "-")+".sock"), nil
}

// Listen listens for a server of that name, by a network such as "unix", in the network namespace
// of the calling thread. The error wraps EADDRINUSE if such a server runs. Every user may connect.
func Listen(network, name string) (*net.UnixListener, error) {
	if os.Geteuid() == 0 {
		file, err := path(name)
		if err != nil {
			return nil, err
		}
		l, err := listenFile(network, file)
		if err == nil || !unwritable(err) {
			return l, err
		}
	}
	return net.ListenUnix(network, &net.UnixAddr{Name: Abstract(name), Net: network})
}

// Directory makes a directory for sockets of a server of root's, in which only root makes files, for
// the network namespace of the calling thread. It returns "" for other users, and where /run cannot
// be written.
func Directory(name string) (string, error) {
	file, err := path(name)
	if err != nil || os.Geteuid() != 0 {
		return "", err
	}
	dir := strings.TrimSuffix(file, ".sock")
	if err := makeDir(dir); err != nil && !unwritable(err) {
		return "", err
	} else if err != nil {
		return "", nil
	}
	return dir, nil
}

// unwritable reports whether the directory is not this process's to write: it is root in a user
// namespace only, or in a container.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist)
}

// listenFile listens at a file, in place of one that a server has left which was killed.
func listenFile(network, file string) (*net.UnixListener, error) {
	unlock, err := lock(filepath.Dir(file), lockPatience)
	if err != nil {
		return nil, err
	}
	defer unlock()
	prune(filepath.Dir(file))
	conn, err := net.Dial(network, file)
	switch {
	case err == nil:
		conn.Close()
		return nil, &net.OpError{Op: "listen", Net: network, Addr: &net.UnixAddr{Name: file, Net: network}, Err: unix.EADDRINUSE}
	case errors.Is(err, unix.ECONNREFUSED):
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: file, Net: network})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(file, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// makeDir makes a directory below that of root's sockets. All users may look into it, whatever the umask is:
// else they would not find root's sockets, and take those of others for them.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for ; len(dir) >= len(directory); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// lockPatience bounds how long a process waits for the lock of a directory, which a process that is stopped
// may hold.
const lockPatience = 2 * time.Second

// lock makes the directory of a namespace if there is none, and locks it against other processes of
// root's. Without patience the error is EWOULDBLOCK if another one has it.
func lock(dir string, patience time.Duration) (unlock func(), err error) {
	_, missing := os.Stat(dir)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR || !time.Now().Before(end) {
			file.Close()
			return nil, err
		}
	}
	_ = os.Chtimes(dir, time.Time{}, time.Now()) // in use: prune leaves it
	if missing != nil {
		prune(dir)
	}
	return func() { file.Close() }, nil
}

// pruneAge is how old the directory of a namespace must be to be removed: who has just made it is
// about to make sockets in it.
const pruneAge = time.Minute

// prune removes directories beside own in which no socket is anybody's: their namespaces have ended,
// or need them no more.
func prune(own string) {
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(own), "net-*"))
	for _, dir := range all {
		if info, err := os.Stat(dir); dir == own || err != nil || time.Since(info.ModTime()) < pruneAge {
			continue
		}
		used := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.Type() != fs.ModeSocket || dead(file) {
				return err
			}
			return unix.EADDRINUSE
		})
		if used == nil {
			os.RemoveAll(dir)
		}
	}
}

// dead reports whether no process has the socket of a file. It connects by a kind of socket of which a
// server notices nothing.
func dead(file string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: file}), unix.ECONNREFUSED)
}

// Dial connects to the server of that name, root's if there is one, in the network namespace of the
// calling thread. Without a server the error wraps ECONNREFUSED.
func Dial(network, name string) (*net.UnixConn, error) {
	if file, err := path(name); err == nil {
		conn, err := dial(network, file)
		if err == nil {
			return conn, nil
		}
	}
	return dial(network, Abstract(name))
}

func dial(network, name string) (*net.UnixConn, error) {
	return net.DialUnix(network, nil, &net.UnixAddr{Name: name, Net: network})
}

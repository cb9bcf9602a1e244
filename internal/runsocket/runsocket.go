// Package runsocket determines the names of the Unix sockets at which programs of a host find a
// server.
//
// Any user can take a name in the abstract name space first, and could thereby keep root's servers
// from starting, or pose as a server of root. So root's servers listen at files in /run/bobnet, a
// directory that only root can write. A server of another user, or one that cannot write there, has
// a name in the abstract name space. Clients try root's server first. The kernel reports to them
// which user runs the server (SO_PEERCRED).
//
// Resources of the host, such as blocks of ports, have abstract names, unless a user without
// privileges has taken such a name: see Name.
//
// Several network namespaces can share /run, and each has its own servers. So each namespace has its
// own directory below /run/bobnet (see namespace). When a namespace has ended, the next server of
// root that starts removes its directory.
package runsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// directory is the directory of root's sockets. It is a variable for tests.
var directory = "/run/bobnet"

// Abstract returns the name of a server in the abstract name space.
func Abstract(name string) string { return "@bobnet/" + name }

// path returns the file of a server of root in the network namespace of the calling thread.
func path(name string) (string, error) {
	ns, err := namespace()
	if err != nil {
		return "", err
	}
	return filepath.Join(directory, ns, strings.ReplaceAll(name, "/", "-")+".sock"), nil
}

// namespace returns the name of the directory of the calling thread's network namespace. No other namespace
// gets that name, not even after this one has ended: the kernel does not use a cookie twice before the next
// boot, and the name contains the ID of the boot. The kernel reuses the inodes of namespaces, so an inode
// serves only where there are no cookies (before Linux 5.14). A dead namespace's directory then passes for
// that of the new one, which does no harm: sockets without a process do not count.
func namespace() (string, error) {
	boot, err := bootID()
	if err != nil {
		return "", err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
		return fmt.Sprintf("net-%s-%x", boot, cookie), nil
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return "", pathError("stat", "/proc/thread-self/ns/net", err)
	}
	return fmt.Sprintf("net-%s-inode-%d", boot, ns.Ino), nil
}

// bootID returns the first 32 bits of the ID of the boot: a socket's name must be short.
var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(id), "-")
	return first, nil
})

// Listen listens as the server of a name, in the network namespace of the calling thread. network
// is the kind of socket, such as "unix". The error wraps EADDRINUSE if such a server is running.
// Every user may connect.
func Listen(network, name string) (*net.UnixListener, error) {
	if os.Geteuid() == 0 {
		file, err := path(name)
		if err == nil {
			var l *net.UnixListener
			if l, err = listenFile(network, file); err == nil {
				return l, nil
			}
		}
		if !unwritable(err) {
			return nil, err
		}
	}
	return net.ListenUnix(network, &net.UnixAddr{Name: Abstract(name), Net: network})
}

// Directory creates a directory for the sockets of a server of root, for the network namespace of
// the calling thread. Only root can create files there. Directory returns "" for other users, and
// if this process cannot write /run/bobnet.
func Directory(name string) (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	file, err := path(name)
	dir := strings.TrimSuffix(file, ".sock")
	if err == nil {
		err = makeDirLocked(dir)
	}
	switch {
	case err == nil:
		return dir, nil
	case unwritable(err):
		return "", nil
	}
	return "", err
}

// makeDirLocked creates a directory in the directory of a namespace. The lock prevents prune from
// removing the namespace's directory before the server uses it.
func makeDirLocked(dir string) error {
	unlock, err := lock(filepath.Dir(dir), lockPatience)
	if err != nil {
		return err
	}
	defer unlock()
	return makeDir(dir)
}

// unwritable reports whether err means that this process cannot write the directory, for example
// because it is root only in a user namespace or container, or because another user owns the
// directory.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist)
}

// listenFile listens at a file. It replaces the file of a server that was killed.
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

// makeDir creates a directory below the directory of root's sockets, unless this process can already
// write to it. It makes the directory readable for all users, whatever the umask. Otherwise clients
// would not find root's sockets, and would use those of other users instead.
func makeDir(dir string) error {
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if !errors.Is(err, fs.ErrNotExist) {
		return pathError("access", dir, err)
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

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// lockPatience is the maximum time to wait for the lock of a directory. A stopped process may hold
// the lock.
const lockPatience = 2 * time.Second

// lock creates the directory of a namespace if necessary, and locks it against other processes of
// root. It waits at most patience for the lock; then the error is EWOULDBLOCK.
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
	_ = os.Chtimes(dir, time.Time{}, time.Now()) // keeps prune from removing the directory
	if missing != nil {
		prune(dir)
	}
	return func() { file.Close() }, nil
}

// pruneAge is the minimum age of a directory that prune removes: a process that has just created a
// directory is about to create sockets in it.
const pruneAge = time.Minute

// prune removes the directories next to own whose sockets belong to no process: their namespaces
// have ended, or do not need them any more.
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

// dead reports whether no process has the socket of a file. It connects with a datagram socket,
// which a stream server does not notice.
func dead(file string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: file}), unix.ECONNREFUSED)
}

// Dial connects to the server of a name, in the network namespace of the calling thread. It prefers
// a server of root. If there is no server, the error wraps ECONNREFUSED.
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

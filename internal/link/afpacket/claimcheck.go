package afpacket

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// CheckClaim looks whether sockets hold the claim on ports, and were made by root or by this process's
// user: to root the claims of others do not count. Whose network namespace it is that
// they hold it in, OwnNamespace says.
func CheckClaim(index int, typ ethernet.EtherType, ports transport.PortRange, fds []int) error {
	return checkClaim(index, typ, ports, fds, true)
}

// checkClaim looks whether sockets hold the claim on ports. If strict, the kernel must vouch for those
// that have a file.
func checkClaim(index int, typ ethernet.EtherType, ports transport.PortRange, fds []int, strict bool) error {
	if err := driver.CheckPorts(ports); err != nil {
		return err
	}
	first, last := driver.Block(ports.Lo), driver.Block(ports.Hi)
	if ports.Lo == 0 || len(fds) != last-first+1 {
		return fmt.Errorf("transport: %d sockets do not hold the claim on ports %d..%d: %w", len(fds), ports.Lo, ports.Hi, unix.EINVAL)
	}
	for i, fd := range fds {
		name := claimName(index, typ, first+i)
		err := checkHolder(fd, name.Abstract)
		if err != nil && checkFile(fd, name.File, strict) == nil {
			err = checkListens(fd, name.File)
		}
		if err == nil && strict {
			err = checkMaker(fd, name.Abstract)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMaker looks whether root or this process's user has made a socket, whoever has it now.
func checkMaker(fd int, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("transport: what should hold the claim %s: %w", name, err)
	}
	if stat.Uid != 0 && int64(stat.Uid) != int64(os.Geteuid()) {
		return fmt.Errorf("transport: what should hold the claim %s was made by user %d, and not by an agent: %w", name, stat.Uid, unix.EINVAL)
	}
	return nil
}

// checkFile looks whether a socket is bound to a file of root's.
func checkFile(fd int, file string, strict bool) error {
	_, octets, err := sockname(fd)
	if err != nil || file == "" || string(bytes.TrimRight(octets, "\x00")) != file {
		return unix.EINVAL
	}
	if strict {
		if has, err := runsocket.HasFile(fd, file); err != nil || !has {
			return errors.Join(unix.EINVAL, err)
		}
	}
	return nil
}

// checkHolder looks whether a socket is the one that the kernel has under an abstract name,
// which starts with an @. The kernel keeps names apart by the sockets' types, and a connection
// has the name of the listener that has accepted it, also when that has ended: only what
// listens has bound its name itself.
func checkHolder(fd int, name string) error {
	family, octets, err := sockname(fd)
	if err != nil {
		return fmt.Errorf("transport: what should hold the claim %s has no name: %w", name, err)
	}
	if has, abstract := strings.CutPrefix(string(octets), "\x00"); family != unix.AF_UNIX || !abstract || has != name[1:] {
		return fmt.Errorf("transport: what should hold the claim %s is called %q: %w", name, octets, unix.EINVAL)
	}
	return checkListens(fd, name)
}

// checkListens looks whether a socket is a stream socket that listens.
func checkListens(fd int, name string) error {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	listens, failed := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("transport: what should hold the claim %s: %w", name, err)
	}
	if typ != unix.SOCK_STREAM || listens == 0 {
		return fmt.Errorf("transport: what should hold the claim %s is no stream socket that listens, but has its name: %w", name, unix.EINVAL)
	}
	return nil
}

// OwnNamespace fails with EINVAL unless a socket belongs to the network namespace of the calling
// thread: names in the abstract space, interfaces and marks are of one namespace each, and who
// has made one of his own is root in it.
func OwnNamespace(fd int) error {
	own, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("transport: socket to compare another with: %w", err)
	}
	defer unix.Close(own)
	here, err := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 5.14
		return checkNamespace(own, fd)
	}
	there, failed := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("transport: network namespace of a socket: %w", err)
	}
	if here != there {
		return errNamespace
	}
	return nil
}

var errNamespace = fmt.Errorf("transport: a socket is of another network namespace: %w: ask the agent of that one", unix.EINVAL)

// checkNamespace is OwnNamespace by what the namespaces of two sockets are files of. It takes
// CAP_NET_ADMIN in both.
func checkNamespace(own, fd int) error {
	var files [2]unix.Stat_t
	for i, s := range []int{own, fd} {
		ns, err := unix.IoctlRetInt(s, unix.SIOCGSKNS)
		if err != nil {
			return fmt.Errorf("transport: network namespace of a socket: %w: telling it takes Linux 5.14, or CAP_NET_ADMIN", err)
		}
		err = unix.Fstat(ns, &files[i])
		unix.Close(ns)
		if err != nil {
			return fmt.Errorf("transport: network namespace of a socket: %w", err)
		}
	}
	if files[0].Dev != files[1].Dev || files[0].Ino != files[1].Ino {
		return errNamespace
	}
	return nil
}

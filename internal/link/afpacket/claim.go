package afpacket

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Claim reserves blocks of ports on one interface against other links, of this process or another.
// It needs no daemon: each block is a listening Unix socket in the abstract name space. The kernel
// keeps these names per network namespace, and frees them when the process ends for any reason. If
// an unprivileged user holds a name, a process of root uses a file under /run instead (package
// runsocket).
type Claim struct {
	Ports transport.PortRange
	fds   []int
	names []runsocket.Name // bound by this process in the abstract name space
	files []runsocket.Name // bound by this process to files
}

// ClaimPorts claims the blocks that ports touches or, if ports is zero, the first free block from 1
// on. If ports are taken, the error wraps EADDRINUSE and names their owner.
func ClaimPorts(index int, name string, typ ethernet.EtherType, ports transport.PortRange) (*Claim, error) {
	if err := driver.CheckPorts(ports); err != nil {
		return nil, err
	}
	c := new(Claim)
	whichever := ports == transport.PortRange{}
	var b int
	var err error
	c.Ports, b, err = driver.ClaimBlocks(ports, func(b int) error { return c.claimBlock(index, typ, b, !whichever) })
	if whichever && b == driver.Blocks {
		c.Ports, b, err = driver.ClaimBlocks(ports, func(b int) error { return c.claimBlock(index, typ, b, true) })
	}
	if err != nil {
		c.Release()
		return nil, refusal(index, name, typ, c.Ports, b, err)
	}
	return c, nil
}

// claimBlock claims block b. With force, root claims it even if an unprivileged user holds its abstract
// name.
func (c *Claim) claimBlock(index int, typ ethernet.EtherType, b int, force bool) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	var counts func(runsocket.Holder) bool
	if force {
		counts = func(h runsocket.Holder) bool { return h.Listens && mayClaim(h.UID, index, typ) }
	}
	name := claimName(index, typ, b)
	file, err := name.Bind(fd, counts)
	if err != nil {
		unix.Close(fd)
		return err
	}
	if file {
		c.files = append(c.files, name)
	} else {
		c.names = append(c.names, name)
	}
	c.fds = append(c.fds, fd)
	return nil
}

// mayClaim reports whether a user, or root, has a packet socket for frames of an EtherType on an
// interface. The kernel only lets a process with CAP_NET_RAW create one.
func mayClaim(uid uint32, index int, typ ethernet.EtherType) bool {
	if uid == 0 {
		return true
	}
	table, err := os.ReadFile("/proc/thread-self/net/packet")
	if err != nil {
		return true // unknown: it counts
	}
	const protocol, iface, user = 3, 4, 7 // indexes of the columns
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) > user && string(f[protocol]) == fmt.Sprintf("%04x", uint16(typ)) && string(f[iface]) == strconv.Itoa(index) && string(f[user]) == fmt.Sprint(uid) {
			return true
		}
	}
	return false
}

// Sockets returns the sockets of the claim, one for each block, in order. A process that receives
// them also holds the claim.
func (c *Claim) Sockets() []int { return c.fds }

// AdoptClaim returns the claim on ports whose sockets another process has passed to this one. From
// now on this process is reported as the owner. After an error the sockets remain the caller's.
func AdoptClaim(index int, typ ethernet.EtherType, ports transport.PortRange, fds []int) (*Claim, error) {
	if err := checkClaim(index, typ, ports, fds, false); err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
			return nil, err
		}
	}
	return &Claim{Ports: ports, fds: fds}, nil
}

// Claimed reports whether a process holds the claim on block b of an interface. To root, claims of
// unprivileged users do not count.
func Claimed(index int, typ ethernet.EtherType, b int) bool {
	var c Claim
	defer c.Release()
	return errors.Is(c.claimBlock(index, typ, b, true), unix.EADDRINUSE)
}

// Release releases the ports. It may be called again. Other processes may have connected to the
// sockets and sent descriptors that block their closing.
func (c *Claim) Release() {
	passfd.Promptly(func() {
		for _, fd := range c.fds {
			unix.Close(fd)
		}
	})
	for _, name := range c.files {
		name.Clean() // unless another process has received the socket
	}
	c.fds, c.names, c.files = nil, nil, nil
}

// Confirm checks whether root has claimed the ports since ClaimPorts. Call it when the packet
// socket is bound: from then on root respects the claim of another user. The error wraps
// EADDRINUSE.
func (c *Claim) Confirm() error {
	for _, name := range c.names {
		if name.Alive() {
			return fmt.Errorf("transport: ports %d..%d: %w: %s has claimed them in the meantime: choose other ports, or none to get a free block",
				c.Ports.Lo, c.Ports.Hi, unix.EADDRINUSE, driver.Holder(name.File))
		}
	}
	return nil
}

// claimName returns the name of the socket of block b.
func claimName(index int, typ ethernet.EtherType, b int) runsocket.Name {
	return runsocket.NameOf(fmt.Sprintf("@bobnet/%d/%04x/%d", index, uint16(typ), b))
}

// refusal returns the error if block b, or every block, could not be claimed.
func refusal(index int, name string, typ ethernet.EtherType, ports transport.PortRange, b int, err error) error {
	switch {
	case !errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("transport: cannot claim ports %d..%d on %s: %w", ports.Lo, ports.Hi, name, err)
	case b == driver.Blocks:
		return fmt.Errorf("transport: every block of ports on %s is in use, the first by %s: %w: close a program that uses EtherType %#04x there",
			name, driver.Holder(claimName(index, typ, 1).Current()), err, uint16(typ))
	}
	held := driver.BlockPorts(b)
	return fmt.Errorf("transport: ports %d..%d on %s overlap ports %d..%d, which %s has claimed: %w: choose other ports, or none to get a free block",
		ports.Lo, ports.Hi, name, held.Lo, held.Hi, driver.Holder(claimName(index, typ, b).Current()), err)
}

// Shown returns the claim on ports that sockets hold, after CheckClaim. This process is not
// reported as the owner.
func Shown(ports transport.PortRange, fds []int) *Claim { return &Claim{Ports: ports, fds: fds} }

// CheckClaim checks that sockets hold the claim on ports, and were created by root or by this
// process's user: root ignores claims of other users. OwnNamespace checks their network namespace.
func CheckClaim(index int, typ ethernet.EtherType, ports transport.PortRange, fds []int) error {
	return checkClaim(index, typ, ports, fds, true)
}

// checkClaim checks that sockets hold the claim on ports. If strict is set, the kernel must confirm
// those bound to a file.
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

// checkMaker checks that root or this process's user has created a socket, whoever holds it now.
func checkMaker(fd int, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("transport: the socket for claim %s: %w", name, err)
	}
	if stat.Uid != 0 && int64(stat.Uid) != int64(os.Geteuid()) {
		return fmt.Errorf("transport: the socket for claim %s was created by user %d, not by an agent: %w", name, stat.Uid, unix.EINVAL)
	}
	return nil
}

// checkFile checks that a socket is bound to a file of root.
func checkFile(fd int, file string, strict bool) error {
	_, bound, err := sockname(fd)
	if err != nil || file == "" || string(bytes.TrimRight(bound, "\x00")) != file {
		return unix.EINVAL
	}
	if strict {
		if has, err := runsocket.HasFile(fd, file); err != nil || !has {
			return errors.Join(unix.EINVAL, err)
		}
	}
	return nil
}

// checkHolder checks that the kernel has registered a socket under an abstract name, which starts
// with an @. Sockets of different types can have the same name, and an accepted connection has the
// name of its listener, even after that has closed. So the socket must also be a listener, which
// has bound the name itself.
func checkHolder(fd int, name string) error {
	family, bound, err := sockname(fd)
	if err != nil {
		return fmt.Errorf("transport: the socket for claim %s has no name: %w", name, err)
	}
	if has, abstract := strings.CutPrefix(string(bound), "\x00"); family != unix.AF_UNIX || !abstract || has != name[1:] {
		return fmt.Errorf("transport: the socket for claim %s is called %q: %w", name, bound, unix.EINVAL)
	}
	return checkListens(fd, name)
}

// checkListens checks that a socket is a listening stream socket.
func checkListens(fd int, name string) error {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	listens, failed := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("transport: the socket for claim %s: %w", name, err)
	}
	if typ != unix.SOCK_STREAM || listens == 0 {
		return fmt.Errorf("transport: the socket for claim %s has its name, but is not a listening stream socket: %w", name, unix.EINVAL)
	}
	return nil
}

// OwnNamespace returns EINVAL unless a socket belongs to the network namespace of the calling
// thread. Abstract names, interfaces and marks belong to one namespace each, and the creator of a
// namespace is root in it.
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

var errNamespace = fmt.Errorf("transport: a socket belongs to another network namespace: %w (use the agent of that namespace)", unix.EINVAL)

// checkNamespace is OwnNamespace by comparing the namespace files of two sockets. It needs
// CAP_NET_ADMIN in both.
func checkNamespace(own, fd int) error {
	var files [2]unix.Stat_t
	for i, s := range []int{own, fd} {
		ns, err := unix.IoctlRetInt(s, unix.SIOCGSKNS)
		if err != nil {
			return fmt.Errorf("transport: network namespace of a socket: %w: this needs Linux 5.14 or CAP_NET_ADMIN", err)
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

package shared

import (
	"crypto/rand"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// NameSize is the length of an Offer's name.
const NameSize = 16

// callersMost is the maximum number of processes that can call an Offer before it serves them.
const callersMost = 64

// Offer gives memory to other processes of this user, in three steps that none of them waits in. A process
// calls the offer by its name. The offer serves all who have called. Each of them takes the memory. The
// processes must order these steps by other means. Strangers can read the name, so the kernel's record of the
// user decides who gets the memory.
type Offer struct {
	Name [NameSize]byte
	file int // of the memory
	fd   int // the listening socket
}

// NewOffer creates memory of size bytes, which hold 0, and offers it. Close ends the offer, not the memory.
func NewOffer(size int) (*Memory, *Offer, error) {
	m, file, err := New(size)
	if err != nil {
		return nil, nil, err
	}
	o := &Offer{file: file}
	rand.Read(o.Name[:])
	if o.fd, err = socket(); err == nil {
		if err = unix.Bind(o.fd, address(o.Name)); err == nil {
			err = unix.Listen(o.fd, callersMost)
		}
	}
	if err != nil {
		o.Close()
		return nil, nil, fmt.Errorf("shared: offer memory: %w", err)
	}
	return m, o, nil
}

// socket returns a socket that does not block, or -1.
func socket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// address returns the abstract name of an offer's socket.
func address(name [NameSize]byte) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@bobnet-shared/%x", name)}
}

// ours reports whether a process of this user has the other end of a connection.
func ours(fd int) bool {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && int64(who.Uid) == int64(os.Geteuid())
}

// Serve gives the memory to the processes of this user that have called.
func (o *Offer) Serve() {
	for range 2 * callersMost { // strangers may call all the time
		fd, _, err := unix.Accept4(o.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return
		}
		if ours(fd) {
			_ = unix.Sendmsg(fd, o.Name[:1], unix.UnixRights(o.file), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		}
		passfd.Promptly(func() { unix.Close(fd) })
	}
}

// Close ends the offer.
func (o *Offer) Close() {
	passfd.Promptly(func() {
		for _, fd := range []int{o.file, o.fd} {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	})
}

// Call is a call of an Offer of another process.
type Call struct{ fd int }

// NewCall calls the offer of that name. The error is not nil if there is none, or if another user has it.
func NewCall(name [NameSize]byte) (*Call, error) {
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	c := &Call{fd}
	if err = os.NewSyscallError("connect", unix.Connect(fd, address(name))); err == nil && !ours(fd) {
		err = fmt.Errorf("shared: call an offer of memory: another user has it: %w", unix.EPERM)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Take maps memory of size bytes that the offer has given.
func (c *Call) Take(size int) (*Memory, error) {
	uid := uint32(os.Geteuid())
	var text [2]byte
	m, err := passfd.ReceiveNow(c.fd, uid, text[:])
	if err != nil {
		return nil, fmt.Errorf("shared: take memory: %w", err)
	}
	defer passfd.Close(uid, m.FDs...)
	if len(m.FDs) != 1 {
		return nil, fmt.Errorf("shared: take memory: %d files have come, want 1: %w", len(m.FDs), unix.EPROTO)
	}
	return Map(m.FDs[0], size)
}

// Close ends the call.
func (c *Call) Close() { passfd.Promptly(func() { unix.Close(c.fd) }) }

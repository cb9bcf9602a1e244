// Package passfd receives file descriptors that other processes pass over Unix sockets
// (SCM_RIGHTS), and closes them so that their sender cannot make this process wait.
//
// A process can control how long the last close of a file takes: the close of a TCP socket with
// SO_LINGER waits for the peer, and the close of a file in a user's own file system (FUSE) waits
// for that user. The kernel also does the last close in two cases in which a program closes
// nothing: in a receive call without room for all descriptors, and when a socket is closed whose
// queue holds descriptors. So every receiver of descriptors, and every socket that other users can
// send to, uses this package:
//
//   - Receive has room for all descriptors that a message can carry.
//   - Conn is a connection to a server that wants no descriptors.
//   - Close, CloseConn and HangUp return at once. At most two goroutines for each user do the
//     closing.
//   - Promptly runs a close that must be complete when it returns, and interrupts its lingering.
//     Refuse and CloseListener use it.
//
// If too many descriptors of a user are waiting to be closed, the package accepts no more from this
// user: it refuses the user's messages on connections, and drops their descriptors on sockets that
// all users share.
package passfd

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Most is the maximum number of descriptors in a message: the kernel's SCM_MAX_FD.
const Most = 253

// controlSize is the size in bytes of control messages with the sender's credentials and the
// maximum number of descriptors.
var controlSize = unix.CmsgSpace(unix.SizeofUcred) + unix.CmsgSpace(4*Most)

// ErrBusy is the error for messages of a user if too many of the user's descriptors are still being
// closed.
var ErrBusy = errors.New("too many descriptors of this user are still being closed")

// Message describes a received message: the length of its payload, and the data that came with it.
type Message struct {
	N    int                // bytes of payload
	FDs  []int              // descriptors; the caller gives them to Close when it does not need them
	Who  *unix.Ucred        // the sender, if the socket has SO_PASSCRED set; otherwise nil
	From *unix.SockaddrUnix // the sender's address on a datagram socket; nil if it has none
	Cut  bool               // this process could not take all descriptors: too many of its files are open
}

// uid returns the user to whom the message's descriptors belong.
func (m *Message) uid() uint32 {
	if m.Who == nil {
		return Unknown
	}
	return m.Who.Uid
}

// Unknown is the user ID if the kernel does not report the sender. It is the kernel's own number
// for no user.
const Unknown = 1<<32 - 1

// Receive receives a message from a connection with a process of user uid. It waits as conn.Read
// does, and fails with ErrBusy while too many of the user's descriptors are being closed.
func Receive(conn *net.UnixConn, uid uint32, b []byte) (m Message, err error) {
	return wait(conn, func(fd int) (Message, error) { return ReceiveNow(fd, uid, b) })
}

// ReceiveNow is Receive for a socket that does not block. It fails with EAGAIN if nothing has come.
func ReceiveNow(fd int, uid uint32, b []byte) (Message, error) {
	if closing.full(uid) {
		return Message{}, fmt.Errorf("user %d: %w", uid, ErrBusy)
	}
	return receive(fd, b, controlSize, 0)
}

// ReceiveAny receives a message from a socket that has SO_PASSCRED set, so that each message
// carries its sender's credentials. It waits as conn.Read does. If too many descriptors of the
// sender's user are being closed, the message arrives without descriptors.
func ReceiveAny(conn *net.UnixConn, b []byte) (Message, error) {
	return wait(conn, func(fd int) (Message, error) { return receiveAny(fd, b) })
}

func receiveAny(fd int, b []byte) (Message, error) {
	room := controlSize
	if closing.anyFull() {
		// The kernel passes no descriptors to a receiver without room for them, so this peek
		// receives none.
		next, err := receive(fd, make([]byte, 1), unix.CmsgSpace(unix.SizeofUcred), unix.MSG_PEEK)
		if err != nil {
			return next, err
		}
		if closing.full(next.uid()) {
			room = unix.CmsgSpace(unix.SizeofUcred)
		}
	}
	return receive(fd, b, room, 0)
}

// RefuseRights makes the kernel refuse messages with descriptors to a socket, if it supports this
// (Linux 6.16).
func RefuseRights(fd int) {
	const passRights = 83 // SO_PASSRIGHTS
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, passRights, 0)
}

// controls holds buffers for Drop, which must not allocate memory.
var controls = sync.Pool{New: func() any { b := make([]byte, controlSize); return &b }}

// Drop removes a message from a non-blocking datagram socket, and closes the descriptors that came
// with it. It reports whether there was a message.
func Drop(fd int) bool {
	if closing.full(Unknown) { // there is no room for descriptors: the kernel closes them
		_, err := receive(fd, make([]byte, 1), 0, 0)
		return err == nil
	}
	buffer := controls.Get().(*[]byte)
	defer controls.Put(buffer)
	control := *buffer
	var one [1]byte
	_, k, _, _, err := unix.Recvmsg(fd, one[:], control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err == nil && k > 0 {
		var m Message
		m.parse(control[:k])
		Close(Unknown, m.FDs...)
	}
	return err == nil
}

// wait calls get until it returns a message or an error other than EAGAIN.
func wait(conn *net.UnixConn, get func(fd int) (Message, error)) (m Message, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return m, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		m, err = get(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	return m, errors.Join(err, failed)
}

// receive receives a message with room bytes for control messages. The kernel closes descriptors
// that do not fit, or for which this process has no free number.
func receive(fd int, b []byte, room, flags int) (m Message, err error) {
	control := make([]byte, room)
	var n, k, got int
	var from unix.Sockaddr
	Promptly(func() {
		for {
			n, k, got, from, err = unix.Recvmsg(fd, b, control, flags|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			if err != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return m, err
	}
	m.N = n
	m.From, _ = from.(*unix.SockaddrUnix)
	m.parse(control[:k])
	m.Cut = got&unix.MSG_CTRUNC != 0 && room == controlSize
	return m, nil
}

// parse reads descriptors and credentials from the control messages.
func (m *Message) parse(control []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return // cannot happen: the kernel writes valid control messages
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		m.FDs = append(m.FDs, fds...)
		if who, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			m.Who = who
		}
	}
}

// PeerOf returns the process and the user at the other end of a connection, as of the time when the
// connection was made.
func PeerOf(conn *net.UnixConn) (who *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return who, errors.Join(err, failed)
}

package passfd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// message holds the structures that recvmsg(2) fills. Reads reuse it, because unix.Recvmsg
// allocates.
type message struct {
	header unix.Msghdr
	data   unix.Iovec
}

// receive receives n bytes of data and k bytes of control messages, without blocking.
func (m *message) receive(fd int, b, control []byte) (n, k int, err error) {
	m.data.Base = &b[0]
	m.data.SetLen(len(b))
	m.header = unix.Msghdr{Iov: &m.data, Iovlen: 1, Control: &control[0]}
	m.header.SetControllen(len(control))
	for {
		got, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.header)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			return int(got), int(m.header.Controllen), nil
		case unix.EINTR:
		default:
			return 0, 0, errno
		}
	}
}

package runsocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Holder describes the socket that has a name, as the kernel reports it.
type Holder struct {
	UID     uint32 // the user who created the socket, who may not be its present owner
	Listens bool
}

// entry is a socket in the kernel's list.
type entry struct {
	typ     int
	listens bool
	inode   uint32
	name    string // an abstract name begins with an @
	uid     uint32
	hasUID  bool
	vfsIno  uint32 // inode of the file that the socket is bound to
	vfsDev  uint32
}

// Layouts and constants of linux/unix_diag.h that package unix lacks.
const (
	diagRequest = 24 // bytes of struct unix_diag_req
	diagAnswer  = 16 // bytes of struct unix_diag_msg

	showName, showVFS, showUID = 1 << 0, 1 << 1, 1 << 6
	attrName, attrVFS, attrUID = 0, 1, 7

	byFamily   = 20 // SOCK_DIAG_BY_FAMILY
	tcpListen  = 10
	diagBuffer = 64 << 10
)

// diagPatience is the maximum time, in seconds, to wait for the kernel's answer.
const diagPatience = 5

// holderOf returns the socket of type typ with an abstract name, which begins with an @, in the
// network namespace of the calling thread.
func holderOf(name string, typ int) (h Holder, found bool, err error) {
	err = list(func(e entry) {
		if e.typ == typ && e.name == name && e.hasUID {
			h, found = Holder{e.uid, e.listens}, true
		}
	})
	return h, found, err
}

// SocketOf returns the inode of the socket with a name, and the user who created it, in the network
// namespace of the calling thread.
func SocketOf(name string) (inode, uid uint32, found bool) {
	_ = list(func(e entry) {
		if e.name == name && e.hasUID {
			inode, uid, found = e.inode, e.uid, true
		}
	})
	return inode, uid, found
}

// HasFile reports whether the socket fd, in the network namespace of the calling thread, is bound
// to a file. The socket's name alone does not prove this, because another mount namespace can have
// a different file of this name.
func HasFile(fd int, file string) (has bool, err error) {
	var socket, at unix.Stat_t
	if err := unix.Fstat(fd, &socket); err != nil {
		return false, err
	}
	if err := unix.Lstat(file, &at); err != nil {
		return false, &os.PathError{Op: "lstat", Path: file, Err: err}
	}
	dev := unix.Major(at.Dev)<<20 | unix.Minor(at.Dev) // the kernel's encoding of device numbers
	err = list(func(e entry) {
		has = has || e.inode == uint32(socket.Ino) && e.vfsIno == uint32(at.Ino) && e.vfsDev == dev
	})
	return has, err
}

// list calls f for each Unix socket of the network namespace of the calling thread.
func list(f func(e entry)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: diagPatience}); err != nil {
		return err
	}
	if err := unix.Sendto(fd, dumpRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, diagBuffer)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return nil
			case unix.NLMSG_ERROR:
				return fmt.Errorf("runsocket: the kernel does not list Unix sockets (it lacks CONFIG_UNIX_DIAG): %w", unix.ENOTSUP)
			}
			if e, ok := parseEntry(m.Data); ok {
				f(e)
			}
		}
	}
}

// dumpRequest returns the request for all Unix sockets.
func dumpRequest() []byte {
	b := binary.NativeEndian.AppendUint32(nil, unix.NLMSG_HDRLEN+diagRequest)
	b = binary.NativeEndian.AppendUint16(b, byFamily)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = append(b, make([]byte, 8)...) // sequence number, port
	b = append(b, unix.AF_UNIX, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // all states
	b = binary.NativeEndian.AppendUint32(b, 0)          // all inodes
	b = binary.NativeEndian.AppendUint32(b, showName|showVFS|showUID)
	return append(b, make([]byte, 8)...) // cookie
}

// parseEntry decodes a struct unix_diag_msg and the attributes that follow it.
func parseEntry(b []byte) (e entry, ok bool) {
	if len(b) < diagAnswer || b[0] != unix.AF_UNIX {
		return e, false
	}
	e.typ, e.listens, e.inode = int(b[1]), b[2] == tcpListen, binary.NativeEndian.Uint32(b[4:])
	for b = b[diagAnswer:]; len(b) >= unix.NLA_HDRLEN; {
		size, typ := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if size < unix.NLA_HDRLEN || size > len(b) {
			return e, false
		}
		switch value := b[unix.NLA_HDRLEN:size]; {
		case typ == attrName && len(value) > 0 && value[0] == 0:
			e.name = "@" + string(value[1:])
		case typ == attrName && len(value) > 0 && value[0] != '@':
			e.name = string(bytes.TrimRight(value, "\x00"))
		case typ == attrVFS && len(value) >= 8:
			e.vfsIno, e.vfsDev = binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])
		case typ == attrUID && len(value) >= 4:
			e.uid, e.hasUID = binary.NativeEndian.Uint32(value), true
		}
		b = b[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return e, true
}

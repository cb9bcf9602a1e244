package admission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// PeerOf names the peer of a connection, to count by it: the user whose process made it, where
// the kernel of this host tells that, and else the address without the port.
func PeerOf(conn net.Conn) string {
	if c, ok := conn.(*net.UnixConn); ok {
		if who, err := passfd.PeerOf(c); err == nil {
			return fmt.Sprintf("user %d", who.Uid)
		}
	}
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok { // an address of Bobnet's, for example, whose port is behind a slash
		host, _, _ := strings.Cut(conn.RemoteAddr().String(), "/")
		return host
	}
	if to, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		if uid, err := userOf(from, to); err == nil { // it is a process of this host, whatever address it has used
			return fmt.Sprintf("user %d", uid)
		}
	}
	return from.IP.String()
}

// Layout of the kernel's messages about one TCP socket (linux/inet_diag.h).
const (
	diagByFamily    = 20 // SOCK_DIAG_BY_FAMILY
	diagRequestSize = unix.NLMSG_HDRLEN + 56
	diagState       = unix.NLMSG_HDRLEN + 1  // offset in the reply
	diagUID         = unix.NLMSG_HDRLEN + 64 // offset in the reply
	stateListen     = 10                     // TCP_LISTEN (net/tcp_states.h)
)

// userOf returns the user who has made the TCP socket from one address of this host to another.
func userOf(from, to *net.TCPAddr) (uid uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	var reply [512]byte
	n, _, err := unix.Recvfrom(fd, reply[:], 0)
	if err != nil {
		return 0, err
	}
	// If no socket has both addresses, the kernel returns a listener at the port of from, whose address may be
	// any: from is the address of another host then.
	if n < diagUID+4 || binary.NativeEndian.Uint16(reply[4:]) != diagByFamily || reply[diagState] == stateListen {
		return 0, errors.New("the kernel knows no such socket")
	}
	return binary.NativeEndian.Uint32(reply[diagUID:]), nil
}

func diagRequest(from, to *net.TCPAddr) []byte {
	b := make([]byte, diagRequestSize)
	ne, be := binary.NativeEndian, binary.BigEndian
	ne.PutUint32(b, diagRequestSize)
	ne.PutUint16(b[4:], diagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	q := b[unix.NLMSG_HDRLEN:]
	family, src, dst := byte(unix.AF_INET), from.IP.To4(), to.IP.To4()
	if src == nil || dst == nil {
		family, src, dst = unix.AF_INET6, from.IP.To16(), to.IP.To16()
	}
	q[0], q[1] = family, unix.IPPROTO_TCP
	ne.PutUint32(q[4:], 1<<32-1) // sockets in all states
	be.PutUint16(q[8:], uint16(from.Port))
	be.PutUint16(q[10:], uint16(to.Port))
	copy(q[12:28], src)
	copy(q[28:44], dst)
	ne.PutUint64(q[48:], 1<<64-1) // no cookie
	return b
}

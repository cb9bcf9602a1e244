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

// PeerOf returns a name for the peer of a connection, as a key of a Gate: the user whose process
// made the connection, if the kernel of this host reports it, and otherwise the address without the
// port.
func PeerOf(conn net.Conn) string {
	if c, ok := conn.(*net.UnixConn); ok {
		if who, err := passfd.PeerOf(c); err == nil {
			return fmt.Sprintf("user %d", who.Uid)
		}
	}
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok { // for example an address of Bobnet, in which the port follows a slash
		host, _, _ := strings.Cut(conn.RemoteAddr().String(), "/")
		return host
	}
	if to, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		if uid, err := userOf(from, to); err == nil { // the peer is a process of this host, whatever address it has used
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

// userOf returns the user who created the TCP socket that connects two addresses of this host.
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
	// If no socket has both addresses, the kernel returns a listener at the port of from, with any
	// address. from is then an address of another host.
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

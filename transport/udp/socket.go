package udp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Socket buffer sizes to request, in bytes. The kernel counts twice as many, and a datagram takes
// more than its length.
const (
	sendBuffer    = 4 << 20
	receiveBuffer = 8 << 20 // a few send windows of vipl
	receiveEnough = 4 << 20 // with less, one sender can overrun it
)

// bufferError reports that the kernel granted a receive buffer smaller than a link needs to receive
// from one fast sender without loss.
type bufferError struct {
	Have, Need int // bytes, as setsockopt counts them
}

func (e *bufferError) Error() string {
	return fmt.Sprintf("udp: the socket's receive buffer is %d bytes, a fast sender needs %d or frames are lost: sysctl -w net.core.rmem_max=%d",
		e.Have, e.Need, e.Need)
}

// Shortage returns an error if the receive buffer is too small.
func (l *Link) Shortage() error {
	if l.have/2 < receiveEnough {
		return &bufferError{Have: l.have / 2, Need: receiveEnough}
	}
	return nil
}

// claim binds the UDP ports of the blocks that ports touches. If ports is zero, it binds the port
// of the first free block from 1 on.
func (l *Link) claim(ports transport.PortRange) error {
	claimed, b, err := driver.ClaimBlocks(ports, l.bind)
	if err != nil {
		return l.claimError(b, err)
	}
	l.info.Ports, l.lo = claimed, driver.Block(claimed.Lo)
	return nil
}

func (l *Link) claimError(b int, err error) error {
	switch {
	case b == driver.Blocks:
		return fmt.Errorf("transport: every UDP port from %d to %d at %v is in use: %w: close a program that uses them, or choose another base port",
			l.first+1, l.first+driver.Blocks-1, l.station.ip, err)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("transport: ports from %d on at %v are taken: %w: UDP port %d is in use (by whom: ss -ulpn sport = :%d); choose other ports, or none to get a free block",
			b*driver.BlockSize, l.station.ip, err, l.first+b, l.first+b)
	}
	return l.openError(fmt.Sprintf("bind UDP port %d", l.first+b), err)
}

// openError explains why op failed while the link was opened.
func (l *Link) openError(op string, err error) error {
	s := l.station
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: %s at %v: %w: the address has gone from %s or is not ready yet (see: ip address show dev %s)",
			transport.ErrInterface, op, s.ip, err, s.name, s.name)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s at %v: %w: choose a base port above 1023", transport.ErrPermission, op, s.ip, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %s at %v: %w: see: ip link show %s", transport.ErrGone, op, s.ip, err, s.name)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%w: %s at %v: %w: see: ip link show %s", transport.ErrLinkDown, op, s.ip, err, s.name)
	}
	return fmt.Errorf("transport: %s at %v on %s: %w", op, s.ip, s.name, err)
}

// bind opens the socket of block b.
func (l *Link) bind(b int) error {
	fd, err := l.socket()
	if err != nil {
		return err
	}
	if err := errors.Join(l.options(fd), unix.Bind(fd, l.sockaddr(l.first+b))); err != nil {
		unix.Close(fd)
		return err
	}
	l.socks = append(l.socks, fd)
	return nil
}

func (l *Link) domain() int {
	if l.where.six {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// sockaddr returns the station's address with a UDP port.
func (l *Link) sockaddr(port int) unix.Sockaddr {
	if ip := l.station.ip; !l.where.six {
		return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: l.station.ip.As16(), ZoneId: l.zone()}
}

// zone distinguishes link-local addresses of several interfaces. The kernel ignores it for other
// addresses.
func (l *Link) zone() uint32 { return uint32(l.station.index) }

// datagrams opens a socket.
func (l *Link) datagrams() (int, error) {
	return unix.Socket(l.domain(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// socket opens a socket and sets the sizes of its buffers. With CAP_NET_ADMIN they may exceed
// net.core.rmem_max and wmem_max.
func (l *Link) socket() (int, error) {
	fd, err := l.datagrams()
	if err != nil {
		return -1, err
	}
	for _, opt := range [][3]int{
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer},
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, receiveBuffer},
	} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt[0], opt[2]) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt[1], opt[2])
		}
	}
	if l.have, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// options configures a sending socket: no fragmentation, and multicast from the chosen interface,
// to the segment and to the other links of this host.
func (l *Link) options(fd int) error {
	if l.where.six {
		return setAll(fd, unix.IPPROTO_IPV6, [][2]int{
			{unix.IPV6_V6ONLY, 1},
			{unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{unix.IPV6_MULTICAST_IF, l.station.index},
			{unix.IPV6_MULTICAST_HOPS, 1},
			{unix.IPV6_MULTICAST_LOOP, 1},
		})
	}
	return errors.Join(
		setAll(fd, unix.IPPROTO_IP, [][2]int{
			{unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
			{unix.IP_MULTICAST_TTL, 1},
			{unix.IP_MULTICAST_LOOP, 1},
		}),
		unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
			&unix.IPMreqn{Address: l.station.ip.As4(), Ifindex: int32(l.station.index)}))
}

func setAll(fd, level int, options [][2]int) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, level, o[0], o[1]); err != nil {
			return err
		}
	}
	return nil
}

// groupAddr returns the multicast group of an EtherType: in the local scope of RFC 2365, or a
// transient group on one link of RFC 3307.
func groupAddr(six bool, typ ethernet.EtherType) (ip [16]byte) {
	if six {
		ip[0], ip[1] = 0xff, 0x12
		binary.BigEndian.PutUint16(ip[14:], uint16(typ))
		return ip
	}
	ip[0], ip[1] = 239, 255
	binary.BigEndian.PutUint16(ip[2:], uint16(typ))
	return ip
}

// joinGroup opens the socket that receives broadcasts. It is bound to the group, so that it
// receives nothing else, and shares the port with all other links.
func (l *Link) joinGroup(typ ethernet.EtherType) error {
	fd, err := l.socket()
	if err != nil {
		return err
	}
	ip := groupAddr(l.where.six, typ)
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if l.where.six {
		err = errors.Join(err,
			setAll(fd, unix.IPPROTO_IPV6, [][2]int{{unix.IPV6_V6ONLY, 1}, {unix.IPV6_MULTICAST_ALL, 0}}),
			unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: ip, Interface: l.zone()}),
			unix.Bind(fd, &unix.SockaddrInet6{Port: l.first + groupPort, Addr: ip, ZoneId: l.zone()}))
	} else {
		err = errors.Join(err,
			setAll(fd, unix.IPPROTO_IP, [][2]int{{unix.IP_MULTICAST_ALL, 0}}),
			unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
				&unix.IPMreqn{Multiaddr: [4]byte(ip[:4]), Address: l.station.ip.As4(), Ifindex: int32(l.station.index)}),
			unix.Bind(fd, &unix.SockaddrInet4{Port: l.first + groupPort, Addr: [4]byte(ip[:4])}))
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.group = fd
	return nil
}

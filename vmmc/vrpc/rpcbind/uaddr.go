package rpcbind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"golang.org/x/sys/unix"
)

// ErrAddr is the error for what is no universal address of a transport.
var ErrAddr = errors.New("rpcbind: not a universal address")

// UniversalAddr returns an address as rpcbind has it (RFC 5665 section 5.2.3): of the Internet's
// transports the IP address and the two octets of the port, with points between them
// ("192.0.2.1.8.1", "2001:db8::1.8.1"); of others the text of the address.
func UniversalAddr(addr net.Addr) string {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return universal(a.AddrPort())
	case *net.UDPAddr:
		return universal(a.AddrPort())
	}
	return addr.String()
}

func universal(a netip.AddrPort) string {
	return fmt.Sprintf("%s.%d.%d", a.Addr().Unmap().WithZone(""), a.Port()>>8, a.Port()&0xff)
}

// ParseAddr returns the IP address and port that a universal address of the Internet's
// transports stands for, or ErrAddr.
func ParseAddr(uaddr string) (netip.AddrPort, error) {
	var none netip.AddrPort
	rest, low, ok1 := cutLast(uaddr)
	host, high, ok2 := cutLast(rest)
	if !ok1 || !ok2 {
		return none, fmt.Errorf("%w: %.60q", ErrAddr, uaddr)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return none, fmt.Errorf("%w: %.60q has no IP address", ErrAddr, uaddr)
	}
	return netip.AddrPortFrom(ip, uint16(high)<<8|uint16(low)), nil
}

// cutLast takes the octet behind the last point.
func cutLast(s string) (rest string, octet uint8, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 || len(s)-i > 4 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 8)
	if err != nil || s[i+1] == '+' {
		return "", 0, false
	}
	return s[:i], uint8(n), true
}

// network is what package net calls a transport of the Internet.
func network(netid string) string {
	switch netid {
	case "tcp", "udp":
		return netid + "4"
	case "tcp6", "udp6":
		return netid
	}
	return ""
}

// check says what is wrong with an entry that is to be registered.
func (n *Entry) check() error {
	switch {
	case n.Netid == "" || n.Addr == "":
		return fmt.Errorf("%w: netid %.60q, address %.60q", ErrAddr, n.Netid, n.Addr)
	case len(n.Netid) > maxText || len(n.Addr) > maxText || len(n.Owner) > maxText:
		return fmt.Errorf("%w: longer than %d octets", ErrAddr, maxText)
	case network(n.Netid) == "":
		return nil
	}
	a, err := ParseAddr(n.Addr)
	if err != nil {
		return err
	}
	if strings.HasSuffix(n.Netid, "6") == a.Addr().Is4() {
		return fmt.Errorf("%w of %s: %s", ErrAddr, n.Netid, n.Addr)
	}
	return nil
}

// reachable returns an address, which may be "any" of a machine, as one of the machine that
// peer can reach: the one that the routes have for peer.
func reachable(uaddr string, peer netip.Addr) string {
	a, err := ParseAddr(uaddr)
	if err != nil || !a.Addr().IsUnspecified() {
		return uaddr
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if a.Addr().Is6() {
		ip = netip.IPv6Loopback()
	}
	if peer.IsValid() && peer.Is4() == a.Addr().Is4() {
		if conn, err := net.Dial("udp", netip.AddrPortFrom(peer, Port).String()); err == nil { // sends nothing
			ip = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
			conn.Close()
		}
	}
	return universal(netip.AddrPortFrom(ip, a.Port()))
}

// atHost returns an address, which may be "any" of a machine, as that of the machine at ip.
func atHost(uaddr string, ip netip.Addr) string {
	a, err := ParseAddr(uaddr)
	if err != nil || !a.Addr().IsUnspecified() || !ip.IsValid() || ip.Is4() != a.Addr().Is4() {
		return uaddr
	}
	return universal(netip.AddrPortFrom(ip, a.Port()))
}

// NetworkAddr returns what vrpc.Dial needs for an entry. The error is ErrAddr.
func (n *Entry) NetworkAddr() (net, address string, err error) {
	if n.Netid == "local" || n.Netid == "unix" {
		return "unix", n.Addr, nil
	}
	if net = network(n.Netid); net == "" {
		return "", "", fmt.Errorf("%w: netid %q is none of tcp, udp, tcp6, udp6 and local", ErrAddr, n.Netid)
	}
	a, err := ParseAddr(n.Addr)
	return net, a.String(), err
}

// netbuf is a transport's own form of an address: on Linux a struct sockaddr.
type netbuf []byte

// sockaddr returns the transport's own form of a universal address, or nothing.
func sockaddr(uaddr string) netbuf {
	a, err := ParseAddr(uaddr)
	if err != nil {
		return nil
	}
	if a.Addr().Is4() {
		b := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[4:], a.Addr().AsSlice())
		return b
	}
	b := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[8:], a.Addr().AsSlice())
	return b
}

// uaddr returns the universal address of a transport's own, or nothing.
func (b netbuf) uaddr() string {
	switch {
	case len(b) == unix.SizeofSockaddrInet4 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		return universal(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])))
	case len(b) == unix.SizeofSockaddrInet6 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		return universal(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:])))
	}
	return ""
}

// peerIP returns the IP address of a call's peer, invalid if it has none.
func peerIP(c *vrpc.Call) netip.Addr { return c.Peer().Addr.Addr() }

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
	"github.com/bobnet-go/bobnet/vmmc/xdr"
	"golang.org/x/sys/unix"
)

// Rpcbind's address: its program number, its TCP and UDP port, and its socket for programs of the
// same machine.
const (
	program = 100000
	port    = 111
	socket  = "/run/rpcbind.sock"
)

// The versions. Version 2 is the portmapper, which knows TCP and UDP over IPv4 only.
const (
	version2 = 2
	version3 = 3
	version4 = 4
)

// The procedures (RFC 1833 sections 2.1 and 3). Those of version 2 have the same numbers
// as their successors; version 3 ends at procTaddr2Uaddr.
const (
	procSet         = 1
	procUnset       = 2
	procGetAddr     = 3 // PMAPPROC_GETPORT
	procDump        = 4
	procCallit      = 5 // RPCBPROC_BCAST in version 4: only success has a reply
	procGetTime     = 6
	procUaddr2Taddr = 7
	procTaddr2Uaddr = 8
	procGetVersAddr = 9
	procIndirect    = 10 // procCallit, but also reports errors
	procGetAddrList = 11
	procGetStat     = 12

	procCount = 13 // RPCBSTAT_HIGHPROC
)

// maxText limits the netid, the address and the owner of an entry, in bytes each.
const maxText = 1024

// Entry is a registration: rpcb of RFC 1833.
type Entry struct {
	Program, Version uint32
	Netid            string // the transport: "tcp", "udp", "tcp6", "udp6", "local", "vmmc"
	Addr             string // a universal address of the transport: see universalAddr
	Owner            string // the user that may remove it; rpcbind fills it in
}

// MarshalXDR encodes the entry.
func (n *Entry) MarshalXDR(e *xdr.Encoder) {
	e.Uint(n.Program)
	e.Uint(n.Version)
	e.String(n.Netid, maxText)
	e.String(n.Addr, maxText)
	e.String(n.Owner, maxText)
}

// UnmarshalXDR decodes the entry.
func (n *Entry) UnmarshalXDR(d *xdr.Decoder) {
	n.Program, n.Version = d.Uint(), d.Uint()
	n.Netid, n.Addr, n.Owner = d.String(maxText), d.String(maxText), d.String(maxText)
}

// Protocols of version 2, with their netids.
const (
	protoTCP = 6
	protoUDP = 17
)

// mapping is a registration of version 2.
type mapping struct{ prog, vers, proto, port uint32 }

func (m *mapping) MarshalXDR(e *xdr.Encoder) {
	e.Uint(m.prog)
	e.Uint(m.vers)
	e.Uint(m.proto)
	e.Uint(m.port)
}

func (m *mapping) UnmarshalXDR(d *xdr.Decoder) {
	m.prog, m.vers, m.proto, m.port = d.Uint(), d.Uint(), d.Uint(), d.Uint()
}

// list encodes the linked lists of RFC 1833 as slices: a flag before each element reports whether
// an element follows. An element has at least min bytes.
type list[T any, P interface {
	*T
	xdr.Marshaler
	xdr.Unmarshaler
}] struct {
	items []T
	min   int
}

func (l *list[T, P]) MarshalXDR(e *xdr.Encoder) {
	for i := range l.items {
		e.Bool(true)
		P(&l.items[i]).MarshalXDR(e)
	}
	e.Bool(false)
}

func (l *list[T, P]) UnmarshalXDR(d *xdr.Decoder) {
	l.items = nil
	for d.Bool() && d.Need("list", l.min) {
		var item T
		P(&item).UnmarshalXDR(d)
		l.items = append(l.items, item)
	}
}

// Minimum sizes of list elements, in bytes.
const (
	minEntry    = 20
	minMapping  = 16
	minEndpoint = 20
)

type (
	entryList    = list[Entry, *Entry]
	mappingList  = list[mapping, *mapping]
	endpointList = list[Endpoint, *Endpoint]
)

// Endpoint is an address of a program, with the meaning of the netid: rpcb_entry of RFC 1833.
type Endpoint struct {
	Addr      string
	Netid     string
	Semantics uint32 // of the transport (RFC 1833 section 2.1): 1 datagrams; 2 a stream; 3 a stream whose close waits for delivery
	Family    string // of protocols: "inet", "inet6", "loopback"
	Proto     string // "tcp", "udp", "-"
}

// Semantics of a transport.
const (
	semanticsDatagram      = 1
	semanticsStream        = 2
	semanticsOrderlyStream = 3 // a stream whose close waits for delivery
)

// MarshalXDR encodes the endpoint.
func (n *Endpoint) MarshalXDR(e *xdr.Encoder) {
	e.String(n.Addr, maxText)
	e.String(n.Netid, maxText)
	e.Uint(n.Semantics)
	e.String(n.Family, maxText)
	e.String(n.Proto, maxText)
}

// UnmarshalXDR decodes an endpoint.
func (n *Endpoint) UnmarshalXDR(d *xdr.Decoder) {
	n.Addr, n.Netid, n.Semantics = d.String(maxText), d.String(maxText), d.Uint()
	n.Family, n.Proto = d.String(maxText), d.String(maxText)
}

// rmtcall is a call for rpcbind to make: rpcb_rmtcallargs. The arguments are already encoded.
type rmtcall struct {
	prog, vers, proc uint32
	args             []byte
}

func (r *rmtcall) MarshalXDR(e *xdr.Encoder) {
	e.Uint(r.prog)
	e.Uint(r.vers)
	e.Uint(r.proc)
	e.Opaque(r.args, xdr.Unbounded)
}

func (r *rmtcall) UnmarshalXDR(d *xdr.Decoder) {
	r.prog, r.vers, r.proc = d.Uint(), d.Uint(), d.Uint()
	r.args = d.Opaque(r.args, xdr.Unbounded)
}

// rmtresult is the result of such a call: rpcb_rmtcallres, or in version 2 call_result, which has
// the port instead of the address.
type rmtresult struct {
	addr    string
	port    uint32
	results []byte
	v2      bool
}

func (r *rmtresult) MarshalXDR(e *xdr.Encoder) {
	if r.v2 {
		e.Uint(r.port)
	} else {
		e.String(r.addr, maxText)
	}
	e.Opaque(r.results, xdr.Unbounded)
}

func (r *rmtresult) UnmarshalXDR(d *xdr.Decoder) {
	if r.v2 {
		r.port = d.Uint()
	} else {
		r.addr = d.String(maxText)
	}
	r.results = d.Opaque(r.results, xdr.Unbounded)
}

// raw is arguments or results that are already encoded.
type raw []byte

func (r *raw) MarshalXDR(e *xdr.Encoder) { e.FixedOpaque(*r) }
func (r *raw) UnmarshalXDR(d *xdr.Decoder) {
	*r = append((*r)[:0], d.FixedOpaqueView(len(d.Rest()))...)
}

// Items that are encoded alone.
type (
	text   string
	number uint32
	flag   bool
)

func (t *text) MarshalXDR(e *xdr.Encoder)     { e.String(string(*t), maxText) }
func (t *text) UnmarshalXDR(d *xdr.Decoder)   { *t = text(d.String(maxText)) }
func (n *number) MarshalXDR(e *xdr.Encoder)   { e.Uint(uint32(*n)) }
func (n *number) UnmarshalXDR(d *xdr.Decoder) { *n = number(d.Uint()) }
func (f *flag) MarshalXDR(e *xdr.Encoder)     { e.Bool(bool(*f)) }
func (f *flag) UnmarshalXDR(d *xdr.Decoder)   { *f = flag(d.Bool()) }

// errAddr reports that a text is not a universal address of a transport.
var errAddr = errors.New("rpcbind: not a universal address")

// universalAddr returns the universal address of a network address (RFC 5665 section 5.2.3). For
// TCP and UDP it is the IP address and the two bytes of the port, separated by dots
// ("192.0.2.1.8.1", "2001:db8::1.8.1"). For other transports it is the text of the address.
func universalAddr(addr net.Addr) string {
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

// parseAddr returns the IP address and port of a universal address of TCP or UDP, or errAddr.
func parseAddr(uaddr string) (netip.AddrPort, error) {
	var none netip.AddrPort
	rest, low, ok1 := cutLast(uaddr)
	host, high, ok2 := cutLast(rest)
	if !ok1 || !ok2 {
		return none, fmt.Errorf("%w: %.60q", errAddr, uaddr)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return none, fmt.Errorf("%w: %.60q has no IP address", errAddr, uaddr)
	}
	return netip.AddrPortFrom(ip, uint16(high)<<8|uint16(low)), nil
}

// cutLast splits the byte after the last dot off s.
func cutLast(s string) (rest string, last uint8, ok bool) {
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

// network returns the name that package net uses for a TCP or UDP transport.
func network(netid string) string {
	switch netid {
	case "tcp", "udp":
		return netid + "4"
	case "tcp6", "udp6":
		return netid
	}
	return ""
}

// check returns an error if an entry is not valid for registration.
func (n *Entry) check() error {
	switch {
	case n.Netid == "" || n.Addr == "":
		return fmt.Errorf("%w: netid %.60q, address %.60q", errAddr, n.Netid, n.Addr)
	case len(n.Netid) > maxText || len(n.Addr) > maxText || len(n.Owner) > maxText:
		return fmt.Errorf("%w: longer than %d bytes", errAddr, maxText)
	case network(n.Netid) == "":
		return nil
	}
	a, err := parseAddr(n.Addr)
	if err != nil {
		return err
	}
	if strings.HasSuffix(n.Netid, "6") == a.Addr().Is4() {
		return fmt.Errorf("%w of %s: %s", errAddr, n.Netid, n.Addr)
	}
	return nil
}

// reachable returns uaddr with a wildcard address replaced by the machine's address that peer can
// reach: the source address of the route to peer.
func reachable(uaddr string, peer netip.Addr) string {
	a, err := parseAddr(uaddr)
	if err != nil || !a.Addr().IsUnspecified() {
		return uaddr
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if a.Addr().Is6() {
		ip = netip.IPv6Loopback()
	}
	if peer.IsValid() && peer.Is4() == a.Addr().Is4() {
		if conn, err := net.Dial("udp", netip.AddrPortFrom(peer, port).String()); err == nil { // sends nothing
			ip = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
			conn.Close()
		}
	}
	return universal(netip.AddrPortFrom(ip, a.Port()))
}

// atHost returns uaddr with a wildcard address replaced by ip.
func atHost(uaddr string, ip netip.Addr) string {
	a, err := parseAddr(uaddr)
	if err != nil || !a.Addr().IsUnspecified() || !ip.IsValid() || ip.Is4() != a.Addr().Is4() {
		return uaddr
	}
	return universal(netip.AddrPortFrom(ip, a.Port()))
}

// NetworkAddr returns the network and address of an entry for vrpc.Dial. The error is errAddr.
func (n *Entry) NetworkAddr() (net, address string, err error) {
	if n.Netid == "local" || n.Netid == "unix" {
		return "unix", n.Addr, nil
	}
	if net = network(n.Netid); net == "" {
		return "", "", fmt.Errorf("%w: netid %q is not tcp, udp, tcp6, udp6 or local", errAddr, n.Netid)
	}
	a, err := parseAddr(n.Addr)
	return net, a.String(), err
}

// netbuf is an address in the transport's own form: on Linux a struct sockaddr.
type netbuf []byte

// sockaddr returns a universal address in the transport's own form, or nil.
func sockaddr(uaddr string) netbuf {
	a, err := parseAddr(uaddr)
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

// uaddr returns the universal address of b, or "".
func (b netbuf) uaddr() string {
	switch {
	case len(b) == unix.SizeofSockaddrInet4 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		return universal(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])))
	case len(b) == unix.SizeofSockaddrInet6 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		return universal(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:])))
	}
	return ""
}

// peerIP returns the IP address of a call's peer; it is invalid if the peer has none.
func peerIP(c *vrpc.Call) netip.Addr { return c.Peer().Addr.Addr() }

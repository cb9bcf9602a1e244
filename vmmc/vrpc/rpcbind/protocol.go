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

// Where rpcbind is found: its program number, the port of its Internet transports, and its
// socket for the programs of its own machine.
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
	procCallit      = 5 // RPCBPROC_BCAST in version 4: no reply but to success
	procGetTime     = 6
	procUaddr2Taddr = 7
	procTaddr2Uaddr = 8
	procGetVersAddr = 9
	procIndirect    = 10 // procCallit that tells errors, too
	procGetAddrList = 11
	procGetStat     = 12

	procCount = 13 // RPCBSTAT_HIGHPROC
)

// maxText is how many bytes the netid, the address and the owner of an entry may have.
const maxText = 1024

// Entry is a registration: rpcb of RFC 1833.
type Entry struct {
	Program, Version uint32
	Netid            string // the transport: "tcp", "udp", "tcp6", "udp6", "local", "vmmc"
	Addr             string // a universal address of the transport: see universalAddr
	Owner            string // who may remove it; rpcbind fills it in
}

// MarshalXDR encodes the entry.
func (n *Entry) MarshalXDR(e *xdr.Encoder) {
	e.Uint(n.Program)
	e.Uint(n.Version)
	e.String(n.Netid, maxText)
	e.String(n.Addr, maxText)
	e.String(n.Owner, maxText)
}

// UnmarshalXDR decodes an entry.
func (n *Entry) UnmarshalXDR(d *xdr.Decoder) {
	n.Program, n.Version = d.Uint(), d.Uint()
	n.Netid, n.Addr, n.Owner = d.String(maxText), d.String(maxText), d.String(maxText)
}

// The protocols of version 2, and what they are as netids.
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

// list is the linked lists of RFC 1833 as slices: before each element stands whether there
// is one. An element has min bytes or more.
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

// The least bytes of what lists contain.
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

// Endpoint is an address of a program with what the netid means: rpcb_entry of RFC 1833.
type Endpoint struct {
	Addr      string
	Netid     string
	Semantics uint32 // of the transport (RFC 1833 section 2.1): 1 datagrams; 2 a stream; 3 a stream whose end waits until all has arrived
	Family    string // of protocols: "inet", "inet6", "loopback"
	Proto     string // "tcp", "udp", "-"
}

// The semantics of a transport.
const (
	semanticsDatagram      = 1
	semanticsStream        = 2
	semanticsOrderlyStream = 3 // one whose end waits until all has arrived
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

// rmtcall is a call that rpcbind is to make: rpcb_rmtcallargs. The arguments are encoded.
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

// rmtresult is what became of it: rpcb_rmtcallres, or in version 2 call_result, which has the
// port instead of the address.
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

// raw is arguments or results that are encoded already.
type raw []byte

func (r *raw) MarshalXDR(e *xdr.Encoder) { e.FixedOpaque(*r) }
func (r *raw) UnmarshalXDR(d *xdr.Decoder) {
	*r = append((*r)[:0], d.FixedOpaqueView(len(d.Rest()))...)
}

// The items of which one stands alone.
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

// errAddr is the error for what is no universal address of a transport.
var errAddr = errors.New("rpcbind: not a universal address")

// universalAddr returns an address as rpcbind has it (RFC 5665 section 5.2.3): of the Internet's
// transports the IP address and the two bytes of the port, with points between them
// ("192.0.2.1.8.1", "2001:db8::1.8.1"); of others the text of the address.
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

// parseAddr returns the IP address and port that a universal address of the Internet's
// transports stands for, or errAddr.
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

// cutLast takes the byte behind the last point.
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

// reachable returns an address, which may be "any" of a machine, as one of the machine that
// peer can reach: the one that the routes have for peer.
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

// atHost returns an address, which may be "any" of a machine, as that of the machine at ip.
func atHost(uaddr string, ip netip.Addr) string {
	a, err := parseAddr(uaddr)
	if err != nil || !a.Addr().IsUnspecified() || !ip.IsValid() || ip.Is4() != a.Addr().Is4() {
		return uaddr
	}
	return universal(netip.AddrPortFrom(ip, a.Port()))
}

// NetworkAddr returns what vrpc.Dial needs for an entry. The error is errAddr.
func (n *Entry) NetworkAddr() (net, address string, err error) {
	if n.Netid == "local" || n.Netid == "unix" {
		return "unix", n.Addr, nil
	}
	if net = network(n.Netid); net == "" {
		return "", "", fmt.Errorf("%w: netid %q is none of tcp, udp, tcp6, udp6 and local", errAddr, n.Netid)
	}
	a, err := parseAddr(n.Addr)
	return net, a.String(), err
}

// netbuf is a transport's own form of an address: on Linux a struct sockaddr.
type netbuf []byte

// sockaddr returns the transport's own form of a universal address, or nothing.
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

package rpcbind

import (
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Where rpcbind is found: its program number, the port of its Internet transports, and its
// socket for the programs of its own machine.
const (
	Program = 100000
	Port    = 111
	Socket  = "/run/rpcbind.sock"
)

// The versions. Version 2 is the portmapper, which knows TCP and UDP over IPv4 only.
const (
	Version2 = 2
	Version3 = 3
	Version4 = 4
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

// maxText is how many octets the netid, the address and the owner of an entry may have.
const maxText = 1024

// Entry is a registration: rpcb of RFC 1833.
type Entry struct {
	Program, Version uint32
	Netid            string // the transport: "tcp", "udp", "tcp6", "udp6", "local", "vmmc"
	Addr             string // a universal address of the transport: see UniversalAddr
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
// is one. An element has min octets or more.
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

// The least octets of what lists contain.
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

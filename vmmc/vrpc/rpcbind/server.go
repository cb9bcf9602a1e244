package rpcbind

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// superuser may remove all entries.
const superuser = "superuser"

// firstOpenPort is the lowest port that a user other than root may take.
const firstOpenPort = 1024

// ServerConfig says what a Server does besides keeping addresses.
type ServerConfig struct {
	// RemoteCalls lets anybody who reaches the server call the programs that are registered,
	// by its mediation: RPCBPROC_BCAST, INDIRECT and CALLIT, without which broadcasts (Broadcast)
	// find nothing. To a program such a call seems to come from its own machine.
	RemoteCalls bool
}

// Server is program 100000: rpcbind itself. Goroutines may share it.
type Server struct {
	cfg     ServerConfig
	table   table
	tallies tallies
}

// NewServer returns a server with no entries but those that Register makes.
func NewServer(cfg *ServerConfig) *Server {
	s := &Server{}
	if cfg != nil {
		s.cfg = *cfg
	}
	return s
}

// Register makes s a program of v, in versions 2, 3 and 4, and enters where v listens, so
// that it is called after v's Listen.
func (s *Server) Register(v *vrpc.Server) error {
	for _, p := range []*vrpc.Program{s.version2(), s.version3(), s.version4()} {
		if err := v.Register(p); err != nil {
			return err
		}
		for _, e := range v.Endpoints() {
			s.table.set(Entry{Program, p.Version, e.Netid, UniversalAddr(e.Addr), superuser})
		}
	}
	return nil
}

// Entries returns what is registered.
func (s *Server) Entries() []Entry { return s.table.dump() }

// counted returns a procedure that is counted.
func (s *Server) counted(version, proc uint32, name string, p vrpc.Procedure) vrpc.Procedure {
	run := p.Run
	return vrpc.Procedure{Number: proc, Name: name, Run: func(c *vrpc.Call) error {
		s.tally(version).call(proc)
		return run(c)
	}}
}

func (s *Server) tally(version uint32) *tally { return &s.tallies[version-Version2] }

// rpcb returns a procedure of versions 3 and 4 that gets an entry.
func rpcb[R any, PR interface {
	*R
	xdr.Marshaler
}](s *Server, version, proc uint32, name string, run func(c *vrpc.Call, n *Entry, res *R)) vrpc.Procedure {
	return s.counted(version, proc, name, vrpc.Proc[Entry, R, *Entry, PR](proc, name, func(c *vrpc.Call, n *Entry, res *R) error {
		run(c, n, res)
		return nil
	}))
}

// common returns the procedures that versions 3 and 4 share.
func (s *Server) common(version uint32) []vrpc.Procedure {
	return []vrpc.Procedure{
		rpcb(s, version, procSet, "SET", func(c *vrpc.Call, n *Entry, res *flag) {
			*res = flag(s.set(c, version, *n))
		}),
		rpcb(s, version, procUnset, "UNSET", func(c *vrpc.Call, n *Entry, res *flag) {
			*res = flag(s.unset(c, version, n.Program, n.Version, n.Netid))
		}),
		rpcb(s, version, procGetAddr, "GETADDR", func(c *vrpc.Call, n *Entry, res *text) {
			*res = text(s.lookup(c, version, n, false))
		}),
		s.counted(version, procDump, "DUMP", vrpc.Proc(procDump, "", func(_ *vrpc.Call, _ *xdr.Void, res *entryList) error {
			res.items = s.table.dump()
			return nil
		})),
		s.counted(version, procGetTime, "GETTIME", vrpc.Proc(procGetTime, "", func(_ *vrpc.Call, _ *xdr.Void, res *number) error {
			*res = number(time.Now().Unix())
			return nil
		})),
		s.counted(version, procUaddr2Taddr, "UADDR2TADDR", vrpc.Proc(procUaddr2Taddr, "", func(_ *vrpc.Call, arg *text, res *netbuf) error {
			*res = sockaddr(string(*arg))
			return nil
		})),
		s.counted(version, procTaddr2Uaddr, "TADDR2UADDR", vrpc.Proc(procTaddr2Uaddr, "", func(_ *vrpc.Call, arg *netbuf, res *text) error {
			*res = text(arg.uaddr())
			return nil
		})),
	}
}

func (s *Server) version3() *vrpc.Program {
	callit := s.remote(Version3, procCallit, "CALLIT")
	return &vrpc.Program{Number: Program, Version: Version3, Name: "rpcbind", Procedures: append(s.common(Version3), callit)}
}

func (s *Server) version4() *vrpc.Program {
	more := []vrpc.Procedure{
		s.remote(Version4, procCallit, "BCAST"),
		s.remote(Version4, procIndirect, "INDIRECT"),
		rpcb(s, Version4, procGetVersAddr, "GETVERSADDR", func(c *vrpc.Call, n *Entry, res *text) {
			*res = text(s.lookup(c, Version4, n, true))
		}),
		rpcb(s, Version4, procGetAddrList, "GETADDRLIST", func(c *vrpc.Call, n *Entry, res *endpointList) {
			res.items = s.endpoints(c, n.Program, n.Version)
		}),
		s.counted(Version4, procGetStat, "GETSTAT", vrpc.Procedure{Run: func(c *vrpc.Call) error {
			if err := c.Decode(&xdr.Void{}); err != nil {
				return err
			}
			return c.Encode(&s.tallies)
		}}),
	}
	return &vrpc.Program{Number: Program, Version: Version4, Name: "rpcbind", Procedures: append(s.common(Version4), more...)}
}

func (s *Server) version2() *vrpc.Program {
	proc := func(number uint32, name string, run func(c *vrpc.Call, m *mapping) uint32) vrpc.Procedure {
		return s.counted(Version2, number, name, vrpc.Proc(number, name, func(c *vrpc.Call, m *mapping, res *uint32Result) error {
			res.n = run(c, m)
			return nil
		}))
	}
	return &vrpc.Program{Number: Program, Version: Version2, Name: "portmapper", Procedures: []vrpc.Procedure{
		proc(procSet, "SET", func(c *vrpc.Call, m *mapping) uint32 {
			netid := netidOf(m.proto)
			if netid == "" || m.port == 0 || m.port > 65535 {
				return 0
			}
			any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.port))
			return truth(s.set(c, Version2, Entry{m.prog, m.vers, netid, universal(any4), ""}))
		}),
		proc(procUnset, "UNSET", func(c *vrpc.Call, m *mapping) uint32 { // the protocol is ignored
			tcp := s.unset(c, Version2, m.prog, m.vers, "tcp")
			udp := s.unset(c, Version2, m.prog, m.vers, "udp")
			return truth(tcp || udp)
		}),
		proc(procGetAddr, "GETPORT", func(c *vrpc.Call, m *mapping) uint32 {
			a, _ := ParseAddr(s.table.find(m.prog, m.vers, netidOf(m.proto), false))
			s.tally(Version2).lookup(m.prog, m.vers, netidOf(m.proto), a.IsValid())
			return uint32(a.Port())
		}),
		s.counted(Version2, procDump, "DUMP", vrpc.Proc(procDump, "", func(_ *vrpc.Call, _ *xdr.Void, res *mappingList) error {
			res.items = mappingsOf(s.table.dump())
			return nil
		})),
		s.remote(Version2, procCallit, "CALLIT"),
	}}
}

// uint32Result is a word of results, which may be a truth.
type uint32Result struct{ n uint32 }

func (r *uint32Result) MarshalXDR(e *xdr.Encoder) { e.Uint(r.n) }

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// mappingsOf returns what version 2 can tell of entries.
func mappingsOf(entries []Entry) (list []mapping) {
	for _, n := range entries {
		if a, err := ParseAddr(n.Addr); err == nil && protoOf(n.Netid) != 0 {
			list = append(list, mapping{n.Program, n.Version, protoOf(n.Netid), uint32(a.Port())})
		}
	}
	return list
}

// MarshalXDR encodes a struct netbuf: the room that it had, and what is in it.
func (b *netbuf) MarshalXDR(e *xdr.Encoder) {
	e.Uint(uint32(len(*b)))
	e.Opaque(*b, maxText)
}

// UnmarshalXDR decodes a struct netbuf.
func (b *netbuf) UnmarshalXDR(d *xdr.Decoder) {
	d.Uint()
	*b = d.Opaque(*b, maxText)
}

// owner returns whose entries a caller makes and removes; not ok for callers of other
// machines, and those whom the kernel does not tell.
func owner(c *vrpc.Call) (name string, ok bool) {
	switch p := c.Peer(); {
	case p.Proven && p.UID == 0, p.Netid == "direct":
		return superuser, true
	case p.Proven:
		return strconv.FormatUint(uint64(p.UID), 10), true
	case p.Addr.Addr().IsLoopback() && p.Addr.Port() < firstOpenPort:
		return superuser, true
	}
	return "", false
}

// set registers an entry for the caller, who cannot change rpcbind's own, and cannot claim
// ports that are root's.
func (s *Server) set(c *vrpc.Call, version uint32, n Entry) bool {
	who, ok := owner(c)
	if !ok || n.Program == Program || n.check() != nil {
		return false
	}
	if a, err := ParseAddr(n.Addr); err == nil && network(n.Netid) != "" && a.Port() < firstOpenPort && who != superuser {
		return false
	}
	n.Owner = who
	t := s.tally(version)
	return t.change(&t.sets, s.table.set(n))
}

func (s *Server) unset(c *vrpc.Call, version, prog, vers uint32, netid string) bool {
	who, ok := owner(c)
	if !ok || prog == Program {
		return false
	}
	t := s.tally(version)
	return t.change(&t.unsets, s.table.unset(prog, vers, netid, who))
}

// lookup returns the address of a program for the transport by which the call came, whatever
// netid it names (RFC 1833 section 2.2.1), as one that the caller can reach.
func (s *Server) lookup(c *vrpc.Call, version uint32, n *Entry, exact bool) string {
	netid := c.Peer().Netid
	addr := s.table.find(n.Program, n.Version, netid, exact)
	s.tally(version).lookup(n.Program, n.Version, netid, addr != "")
	return reachable(addr, peerIP(c))
}

// endpoints returns where a program is for transports of the family by which the call came.
func (s *Server) endpoints(c *vrpc.Call, prog, vers uint32) (list []Endpoint) {
	via := (&Entry{Netid: c.Peer().Netid}).endpoint()
	for _, n := range s.table.dump() {
		e := n.endpoint()
		if n.Program == prog && n.Version == vers && e.Family == via.Family {
			e.Addr = reachable(e.Addr, peerIP(c))
			list = append(list, e)
		}
	}
	return list
}

// programAddr returns where a program is called for others: by UDP, as broadcasts have it, else
// by another transport of the machine.
func (s *Server) programAddr(prog, vers uint32) (Entry, bool) {
	for _, netid := range []string{"udp", "tcp", "udp6", "tcp6", "local"} {
		if addr := s.table.find(prog, vers, netid, true); addr != "" {
			return Entry{Netid: netid, Addr: reachable(addr, netip.Addr{})}, true
		}
	}
	return Entry{}, false
}

// portOf returns the port within a universal address, which version 2 tells instead.
func portOf(uaddr string) uint32 {
	a, err := ParseAddr(uaddr)
	if err != nil || strings.Contains(uaddr, "/") {
		return 0
	}
	return uint32(a.Port())
}

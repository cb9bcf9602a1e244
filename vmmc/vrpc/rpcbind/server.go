package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// superuser is the owner that may remove all entries.
const superuser = "superuser"

// firstOpenPort is the lowest port that a user other than root may register.
const firstOpenPort = 1024

// ServerConfig configures what a Server does in addition to keeping addresses.
type ServerConfig struct {
	// RemoteCalls allows every client of the server to call the registered programs through it:
	// RPCBPROC_BCAST, INDIRECT and CALLIT. Without it, broadcasts (Broadcast) find nothing. To a
	// program, such a call seems to come from its own machine.
	RemoteCalls bool
}

// Server is program 100000: rpcbind itself. Goroutines may share it.
type Server struct {
	cfg     ServerConfig
	table   table
	tallies tallies
}

// NewServer returns a server without entries. Register adds rpcbind's own.
func NewServer(cfg *ServerConfig) *Server {
	s := &Server{}
	if cfg != nil {
		s.cfg = *cfg
	}
	return s
}

// Register adds rpcbind to v as program 100000, in versions 2, 3 and 4, and registers the addresses
// where v listens. Call it after v's Listen.
func (s *Server) Register(v *vrpc.Server) error {
	for _, p := range []*vrpc.Program{s.version2(), s.version3(), s.version4()} {
		if err := v.Register(p); err != nil {
			return err
		}
		for _, e := range v.Endpoints() {
			s.table.set(Entry{program, p.Version, e.Netid, universalAddr(e.Addr), superuser})
		}
	}
	return nil
}

// Entries returns all entries.
func (s *Server) Entries() []Entry { return s.table.dump() }

// counted returns a procedure that counts its calls.
func (s *Server) counted(version, proc uint32, name string, p vrpc.Procedure) vrpc.Procedure {
	run := p.Run
	return vrpc.Procedure{Number: proc, Name: name, Run: func(c *vrpc.Call) error {
		s.tally(version).call(proc)
		return run(c)
	}}
}

func (s *Server) tally(version uint32) *tally { return &s.tallies[version-version2] }

// rpcb returns a procedure of versions 3 and 4 whose argument is an entry.
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
	callit := s.remote(version3, procCallit, "CALLIT")
	return &vrpc.Program{Number: program, Version: version3, Name: "rpcbind", Procedures: append(s.common(version3), callit)}
}

func (s *Server) version4() *vrpc.Program {
	more := []vrpc.Procedure{
		s.remote(version4, procCallit, "BCAST"),
		s.remote(version4, procIndirect, "INDIRECT"),
		rpcb(s, version4, procGetVersAddr, "GETVERSADDR", func(c *vrpc.Call, n *Entry, res *text) {
			*res = text(s.lookup(c, version4, n, true))
		}),
		rpcb(s, version4, procGetAddrList, "GETADDRLIST", func(c *vrpc.Call, n *Entry, res *endpointList) {
			res.items = s.endpoints(c, n.Program, n.Version)
		}),
		s.counted(version4, procGetStat, "GETSTAT", vrpc.Procedure{Run: func(c *vrpc.Call) error {
			if err := c.Decode(&xdr.Void{}); err != nil {
				return err
			}
			return c.Encode(&s.tallies)
		}}),
	}
	return &vrpc.Program{Number: program, Version: version4, Name: "rpcbind", Procedures: append(s.common(version4), more...)}
}

func (s *Server) version2() *vrpc.Program {
	proc := func(number uint32, name string, run func(c *vrpc.Call, m *mapping) uint32) vrpc.Procedure {
		return s.counted(version2, number, name, vrpc.Proc(number, name, func(c *vrpc.Call, m *mapping, res *uint32Result) error {
			res.n = run(c, m)
			return nil
		}))
	}
	return &vrpc.Program{Number: program, Version: version2, Name: "portmapper", Procedures: []vrpc.Procedure{
		proc(procSet, "SET", func(c *vrpc.Call, m *mapping) uint32 {
			netid := netidOf(m.proto)
			if netid == "" || m.port == 0 || m.port > 65535 {
				return 0
			}
			any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.port))
			return truth(s.set(c, version2, Entry{m.prog, m.vers, netid, universal(any4), ""}))
		}),
		proc(procUnset, "UNSET", func(c *vrpc.Call, m *mapping) uint32 { // the protocol is ignored
			tcp := s.unset(c, version2, m.prog, m.vers, "tcp")
			udp := s.unset(c, version2, m.prog, m.vers, "udp")
			return truth(tcp || udp)
		}),
		proc(procGetAddr, "GETPORT", func(c *vrpc.Call, m *mapping) uint32 {
			a, _ := parseAddr(s.table.find(m.prog, m.vers, netidOf(m.proto), false))
			s.tally(version2).lookup(m.prog, m.vers, netidOf(m.proto), a.IsValid())
			return uint32(a.Port())
		}),
		s.counted(version2, procDump, "DUMP", vrpc.Proc(procDump, "", func(_ *vrpc.Call, _ *xdr.Void, res *mappingList) error {
			res.items = mappingsOf(s.table.dump())
			return nil
		})),
		s.remote(version2, procCallit, "CALLIT"),
	}}
}

// uint32Result is a word of results, which may be a boolean.
type uint32Result struct{ n uint32 }

func (r *uint32Result) MarshalXDR(e *xdr.Encoder) { e.Uint(r.n) }

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// mappingsOf returns the entries that version 2 can express.
func mappingsOf(entries []Entry) (list []mapping) {
	for _, n := range entries {
		if a, err := parseAddr(n.Addr); err == nil && protoOf(n.Netid) != 0 {
			list = append(list, mapping{n.Program, n.Version, protoOf(n.Netid), uint32(a.Port())})
		}
	}
	return list
}

// MarshalXDR encodes a struct netbuf: its capacity and its contents.
func (b *netbuf) MarshalXDR(e *xdr.Encoder) {
	e.Uint(uint32(len(*b)))
	e.Opaque(*b, maxText)
}

// UnmarshalXDR decodes a struct netbuf.
func (b *netbuf) UnmarshalXDR(d *xdr.Decoder) {
	d.Uint()
	*b = d.Opaque(*b, maxText)
}

// owner returns the user for whose entries a caller acts. ok is false for callers on other machines
// and for callers whose user the kernel does not report.
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

// set registers an entry for the caller. The caller cannot change rpcbind's own entries. Only root
// can register ports below firstOpenPort.
func (s *Server) set(c *vrpc.Call, version uint32, n Entry) bool {
	who, ok := owner(c)
	if !ok || n.Program == program || n.check() != nil {
		return false
	}
	if a, err := parseAddr(n.Addr); err == nil && network(n.Netid) != "" && a.Port() < firstOpenPort && who != superuser {
		return false
	}
	n.Owner = who
	t := s.tally(version)
	return t.change(&t.sets, s.table.set(n))
}

func (s *Server) unset(c *vrpc.Call, version, prog, vers uint32, netid string) bool {
	who, ok := owner(c)
	if !ok || prog == program {
		return false
	}
	t := s.tally(version)
	return t.change(&t.unsets, s.table.unset(prog, vers, netid, who))
}

// lookup returns a program's address for the transport of the call, whatever netid the call names
// (RFC 1833 section 2.2.1). The caller can reach the address.
func (s *Server) lookup(c *vrpc.Call, version uint32, n *Entry, exact bool) string {
	netid := c.Peer().Netid
	addr := s.table.find(n.Program, n.Version, netid, exact)
	s.tally(version).lookup(n.Program, n.Version, netid, addr != "")
	return reachable(addr, peerIP(c))
}

// endpoints returns a program's addresses on transports of the call's family.
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

// programAddr returns the address at which the server calls a program for a client: by UDP, as for
// broadcasts, or else by another transport of the machine.
func (s *Server) programAddr(prog, vers uint32) (Entry, bool) {
	for _, netid := range []string{"udp", "tcp", "udp6", "tcp6", "local"} {
		if addr := s.table.find(prog, vers, netid, true); addr != "" {
			return Entry{Netid: netid, Addr: reachable(addr, netip.Addr{})}, true
		}
	}
	return Entry{}, false
}

// portOf returns the port in a universal address. Version 2 reports it instead of the address.
func portOf(uaddr string) uint32 {
	a, err := parseAddr(uaddr)
	if err != nil || strings.Contains(uaddr, "/") {
		return 0
	}
	return uint32(a.Port())
}

// Limits of the table. A user other than root may use one share-th of it, so that no user can lock
// out the others. The whole table fits into the reply to DUMP.
const (
	maxEntries   = 4096
	maxListBytes = 2 << 20 // of entries in that reply
	share        = 8
)

// table holds the registered entries.
type table struct {
	mu      sync.Mutex
	entries []Entry // in the order of registration
}

// set registers an entry and reports whether it is registered now.
func (t *table) set(n Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.index(n.Program, n.Version, n.Netid); old >= 0 {
		return t.entries[old].Addr == n.Addr
	}
	if !t.room(&n) {
		return false
	}
	t.entries = append(t.entries, n)
	return true
}

// room reports whether the table has room for an entry.
func (t *table) room(n *Entry) bool {
	own, total, ownTotal := 1, n.size(), n.size()
	for i := range t.entries {
		size := t.entries[i].size()
		total += size
		if t.entries[i].Owner == n.Owner {
			own++
			ownTotal += size
		}
	}
	if len(t.entries) == maxEntries || total > maxListBytes {
		return false
	}
	return n.Owner == superuser || own <= maxEntries/share && ownTotal <= maxListBytes/share
}

// size returns the size of an entry in a list, in bytes.
func (n *Entry) size() int {
	size := 4 + minEntry
	for _, text := range []string{n.Netid, n.Addr, n.Owner} {
		size += (len(text) + 3) &^ 3
	}
	return size
}

// unset removes the entries that owner may remove, for all netids if netid is empty. It reports
// whether it removed any.
func (t *table) unset(prog, vers uint32, netid, owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.entries)
	t.entries = slices.DeleteFunc(t.entries, func(n Entry) bool {
		return n.Program == prog && n.Version == vers && (netid == "" || n.Netid == netid) &&
			(n.Owner == owner || owner == superuser)
	})
	return len(t.entries) < before
}

// find returns a program's address for a netid, or "" if there is none. If the version is not
// registered and exact is not set, find returns the address of another version.
func (t *table) find(prog, vers uint32, netid string, exact bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.index(prog, vers, netid); i >= 0 {
		return t.entries[i].Addr
	}
	for i := range t.entries {
		if n := &t.entries[i]; !exact && n.Program == prog && n.Netid == netid {
			return n.Addr
		}
	}
	return ""
}

func (t *table) index(prog, vers uint32, netid string) int {
	return slices.IndexFunc(t.entries, func(n Entry) bool {
		return n.Program == prog && n.Version == vers && n.Netid == netid
	})
}

// dump returns all entries.
func (t *table) dump() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.entries)
}

// endpoint returns the entry as an Endpoint, with the meaning of its netid.
func (n *Entry) endpoint() Endpoint {
	e := Endpoint{Addr: n.Addr, Netid: n.Netid, Semantics: semanticsOrderlyStream, Family: "loopback", Proto: "-"}
	if proto := strings.TrimSuffix(n.Netid, "6"); proto == "tcp" || proto == "udp" {
		e.Proto, e.Family = proto, "inet"+n.Netid[len(proto):]
		if proto == "udp" {
			e.Semantics = semanticsDatagram
		}
	}
	return e
}

// maxTallies limits the number of programs that are counted by name. Further programs are not
// counted.
const maxTallies = 256

// tally holds the statistics of one version of the protocol (RPCBPROC_GETSTAT): rpcb_stat.
type tally struct {
	mu          sync.Mutex
	procs       [procCount]int32
	sets        int32
	unsets      int32
	lookups     []lookupTally
	remoteCalls []callTally
}

// lookupTally counts address lookups: rpcbs_addrlist.
type lookupTally struct {
	prog, vers       uint32
	netid            string
	success, failure int32
}

// callTally counts calls made for clients: rpcbs_rmtcalllist.
type callTally struct {
	prog, vers, proc           uint32
	netid                      string
	success, failure, indirect int32
}

func (t *tally) call(proc uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.procs[proc]++
}

func (t *tally) change(n *int32, ok bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok {
		*n++
	}
	return ok
}

func (t *tally) lookup(prog, vers uint32, netid string, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.lookups {
		if l := &t.lookups[i]; l.prog == prog && l.vers == vers && l.netid == netid {
			l.count(found)
			return
		}
	}
	if len(t.lookups) < maxTallies {
		l := lookupTally{prog: prog, vers: vers, netid: netid}
		l.count(found)
		t.lookups = append(t.lookups, l)
	}
}

func (l *lookupTally) count(found bool) {
	if found {
		l.success++
	} else {
		l.failure++
	}
}

func (t *tally) remoteCall(r *rmtcall, netid string, indirect, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.remoteCalls {
		if c := &t.remoteCalls[i]; c.prog == r.prog && c.vers == r.vers && c.proc == r.proc && c.netid == netid {
			c.count(indirect, ok)
			return
		}
	}
	if len(t.remoteCalls) < maxTallies {
		c := callTally{prog: r.prog, vers: r.vers, proc: r.proc, netid: netid}
		c.count(indirect, ok)
		t.remoteCalls = append(t.remoteCalls, c)
	}
}

func (c *callTally) count(indirect, ok bool) {
	if ok {
		c.success++
	} else {
		c.failure++
	}
	if indirect {
		c.indirect++
	}
}

// tallies is rpcb_stat_byvers: versions 2, 3 and 4.
type tallies [3]tally

func (t *tallies) MarshalXDR(e *xdr.Encoder) {
	for i := range t {
		t[i].marshal(e)
	}
}

func (t *tally) marshal(e *xdr.Encoder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.procs {
		e.Int(n)
	}
	e.Int(t.sets)
	e.Int(t.unsets)
	for _, l := range t.lookups {
		e.Bool(true)
		e.Uint(l.prog)
		e.Uint(l.vers)
		e.Int(l.success)
		e.Int(l.failure)
		e.String(l.netid, maxText)
	}
	e.Bool(false)
	for _, c := range t.remoteCalls {
		e.Bool(true)
		e.Uint(c.prog)
		e.Uint(c.vers)
		e.Uint(c.proc)
		e.Int(c.success)
		e.Int(c.failure)
		e.Int(c.indirect)
		e.String(c.netid, maxText)
	}
	e.Bool(false)
}

const (
	// unsetPatience limits how long Close of a server waits for rpcbind to remove its entries.
	unsetPatience = 5 * time.Second
	// startPause is the time between two attempts to reach an rpcbind that another process is
	// starting.
	startPause = 50 * time.Millisecond
	startLooks = 40
)

// Config configures how a server is announced. The zero value suits most servers.
type Config struct {
	// Replace removes earlier entries for the same programs and transports. A server that ends
	// without Close leaves its entries behind.
	Replace bool
	// OnlySystem makes Announce return an error if no rpcbind runs, instead of running one in this
	// process.
	OnlySystem bool
	// Port and Socket are where Announce looks for rpcbind, or serves it. 0 and "" mean port 111
	// and the system's socket.
	Port   int
	Socket string
	// Server configures an rpcbind that runs in this process.
	Server ServerConfig
	// RPC sets the limits of that rpcbind.
	RPC vrpc.ServerConfig
}

// Announcement is the registration of a server.
type Announcement struct {
	client *Client
	own    *vrpc.Server // rpcbind, if it is served here
	mu     sync.Mutex
	set    []Entry
}

// Announce registers all programs of s, at all its endpoints, with this machine's rpcbind. If none
// runs, this process serves program 100000 itself, for other processes too, until s is closed.
// Closing s removes the entries. To announce programs and endpoints that s gains later, call
// Update.
func Announce(ctx context.Context, s *vrpc.Server, cfg *Config) (*Announcement, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	c := *cfg
	if c.Port == 0 {
		c.Port = port
	}
	if c.Socket == "" {
		c.Socket = socket
	}
	a, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.register(ctx, s, c.Replace); err != nil {
		a.Close()
		return nil, err
	}
	s.OnClose(func() { a.Close() })
	return a, nil
}

// find connects to the machine's rpcbind, or becomes it. If several processes try, the one that
// gets the port becomes rpcbind.
func (c *Config) find(ctx context.Context) (*Announcement, error) {
	for look := 1; ; look++ {
		client, err := Dial(ctx, "unix", c.Socket, nil)
		if err == nil {
			return &Announcement{client: client}, nil
		}
		if c.OnlySystem {
			return nil, fmt.Errorf("rpcbind: no rpcbind answers at %s (start it, or do not set OnlySystem): %w", c.Socket, err)
		}
		a, err := c.serve()
		if err == nil || look == startLooks || !errors.Is(err, syscall.EADDRINUSE) {
			return a, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(startPause):
		}
	}
}

// serve starts rpcbind in this process.
func (c *Config) serve() (*Announcement, error) {
	own := vrpc.NewServer(&c.RPC)
	port := ":" + strconv.Itoa(c.Port)
	for _, at := range []struct{ network, address string }{{"tcp", port}, {"udp", port}, {"unix", c.Socket}} {
		if at.network == "unix" {
			removeStale(c.Socket)
		}
		if _, err := own.Listen(at.network, at.address); err != nil {
			own.Close()
			return nil, fmt.Errorf("rpcbind: no other rpcbind runs, and this process cannot serve it: %w", err)
		}
	}
	if err := os.Chmod(c.Socket, 0o666); err != nil { // every user may register: the kernel reports the socket's peer
		own.Close()
		return nil, err
	}
	if err := NewServer(&c.Server).Register(own); err != nil {
		own.Close()
		return nil, err
	}
	rpc := vrpc.NewClient(vrpc.Direct(context.Background(), own), program, version4, nil)
	return &Announcement{client: &Client{rpc: rpc, version: version4, netid: "direct"}, own: own}, nil
}

// removeStale removes a socket that has no listener any more.
func removeStale(path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
}

// Update announces the programs and endpoints that s has gained since Announce.
func (a *Announcement) Update(ctx context.Context, s *vrpc.Server) error {
	return a.register(ctx, s, false)
}

func (a *Announcement) register(ctx context.Context, s *vrpc.Server, replace bool) error {
	for _, p := range s.Snapshot().Programs {
		if p.Program == program {
			continue
		}
		for _, e := range s.Endpoints() {
			n := Entry{Program: p.Program, Version: p.Version, Netid: e.Netid, Addr: universalAddr(e.Addr)}
			if err := a.one(ctx, n, replace); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Announcement) one(ctx context.Context, n Entry, replace bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, old := range a.set {
		if old == n {
			return nil
		}
	}
	if replace {
		if err := a.client.Unset(ctx, n.Program, n.Version, n.Netid); err != nil && !errors.Is(err, ErrRefused) {
			return err
		}
	}
	if err := a.client.Set(ctx, n); errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w: another server is registered for the program, or left its entry behind (set Config.Replace to replace it)", err)
	} else if err != nil {
		return err
	}
	a.set = append(a.set, n)
	return nil
}

// Serving reports whether rpcbind runs in this process.
func (a *Announcement) Serving() bool { return a.own != nil }

// Entries returns the entries that Announce and Update registered.
func (a *Announcement) Entries() []Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Entry(nil), a.set...)
}

// Close removes the entries, and stops an rpcbind that runs in this process. Closing the server
// does the same. Further calls do nothing.
func (a *Announcement) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), unsetPatience)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, n := range a.set {
		errs = append(errs, a.client.Unset(ctx, n.Program, n.Version, n.Netid))
	}
	a.set = nil
	a.client.Close()
	if a.own != nil {
		if err := a.own.Close(); err != vrpc.ErrClosed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// DialVMMC returns a client of a program over VMMC, from process p. It first asks rpcbind at the
// host, over TCP, for the program's address with netid "vmmc". If host is empty, or rpcbind there
// does not answer or does not know the program, DialVMMC asks the name service of the segment.
func DialVMMC(ctx context.Context, p *vmmc.Process, host string, prog, vers uint32, cfg *vrpc.ClientConfig) (*vrpc.Client, error) {
	if host != "" {
		if name, err := findVMMC(ctx, host, prog, vers, cfg); err == nil {
			return vrpc.DialVMMC(ctx, p, name, prog, vers, cfg)
		}
	}
	return vrpc.DialVMMCProgram(ctx, p, prog, vers, cfg)
}

func findVMMC(ctx context.Context, host string, prog, vers uint32, cfg *vrpc.ClientConfig) (name vmmc.Name, err error) {
	c, err := Dial(ctx, "tcp", host, cfg)
	if err != nil {
		return name, err
	}
	defer c.Close()
	addr, err := c.Addr(ctx, prog, vers, "vmmc")
	if err != nil {
		return name, err
	}
	return vrpc.ParseVMMC(addr)
}

package rpcbind

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// What becomes of a request, for errors.Is.
var (
	// ErrNotRegistered: the program is not registered for the transport.
	ErrNotRegistered = errors.New("rpcbind: not registered")
	// ErrRefused: rpcbind has answered a change with false: something else is registered
	// there, the entry is another user's, or changes are not accepted by this transport.
	ErrRefused = errors.New("rpcbind: refused")
)

// Client asks rpcbind at one machine, by version 4, 3 or 2, whichever is the highest that
// it has. Goroutines may share it.
type Client struct {
	rpc     *vrpc.Client
	version uint32
	netid   string     // of its own transport
	host    netip.Addr // where it asks; invalid for this machine
}

// Dial returns a client of rpcbind at an address of a network: "tcp", "udp" and so on, with
// a host or a host and a port, or "unix", with the path of a socket. Rpcbind has been asked
// for its version then.
func Dial(ctx context.Context, network, address string, cfg *vrpc.ClientConfig) (*Client, error) {
	if network != "unix" {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(address, strconv.Itoa(port))
		}
	}
	rpc, err := vrpc.Dial(ctx, network, address, program, version4, cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{rpc: rpc, version: version4, netid: "local"}
	if remote, ok := rpc.RemoteAddr().(interface{ AddrPort() netip.AddrPort }); ok {
		c.host = remote.AddrPort().Addr().Unmap()
		c.netid = vrpc.Netid(rpc.RemoteAddr())
	}
	if err := c.negotiate(ctx); err != nil {
		rpc.Close()
		return nil, err
	}
	return c, nil
}

// negotiate finds the highest version that both have.
func (c *Client) negotiate(ctx context.Context) error {
	err := c.rpc.Ping(ctx)
	var mismatch *vrpc.RPCError
	if errors.As(err, &mismatch) && mismatch.Stat == vrpc.ProgMismatch && mismatch.High >= version2 {
		c.version = min(mismatch.High, version3)
		c.rpc = c.rpc.Program(program, c.version)
		err = c.rpc.Ping(ctx)
	}
	return err
}

// Local returns a client of this machine's rpcbind: by its socket, which lets programs
// register, else by TCP.
func Local(ctx context.Context, cfg *vrpc.ClientConfig) (*Client, error) {
	c, err := Dial(ctx, "unix", socket, cfg)
	if err == nil {
		return c, nil
	}
	c, err2 := Dial(ctx, "tcp", "127.0.0.1", cfg)
	if err2 != nil {
		return nil, fmt.Errorf("rpcbind: this machine's: %w; %w", err, err2)
	}
	return c, nil
}

// Version returns the version that is spoken.
func (c *Client) Version() uint32 { return c.version }

// Close ends all calls.
func (c *Client) Close() error { return c.rpc.Close() }

// Set registers an entry (RPCBPROC_SET). It is no error if the same is registered already;
// it is ErrRefused if the program has another address of the transport. Version 2 knows
// the netids "tcp" and "udp" only.
func (c *Client) Set(ctx context.Context, n Entry) error {
	if err := n.check(); err != nil {
		return err
	}
	n.Owner = cmp.Or(n.Owner, strconv.Itoa(os.Getuid()))
	if c.version > version2 {
		return c.change(ctx, procSet, &n, &n)
	}
	a, err := parseAddr(n.Addr)
	if err != nil {
		return err
	}
	return c.changePort(ctx, procSet, n.Program, n.Version, n.Netid, a.Port())
}

// Unset removes the program's entry for a transport, or for all if netid is empty
// (RPCBPROC_UNSET). It is ErrRefused if there is none, or if it is another user's.
func (c *Client) Unset(ctx context.Context, prog, vers uint32, netid string) error {
	n := Entry{Program: prog, Version: vers, Netid: netid, Owner: strconv.Itoa(os.Getuid())}
	if c.version > version2 {
		return c.change(ctx, procUnset, &n, &n)
	}
	return c.changePort(ctx, procUnset, prog, vers, netid, 0)
}

func (c *Client) changePort(ctx context.Context, proc, prog, vers uint32, netid string, port uint16) error {
	m := mapping{prog, vers, protoOf(netid), uint32(port)}
	if m.proto == 0 && (netid != "" || proc == procSet) {
		return fmt.Errorf("%w: the portmapper, version 2, does not know netid %q", ErrRefused, netid)
	}
	return c.change(ctx, proc, &m, &Entry{Program: prog, Version: vers, Netid: netid})
}

func (c *Client) change(ctx context.Context, proc uint32, args xdr.Marshaler, n *Entry) error {
	var ok flag
	if err := c.rpc.Call(ctx, proc, args, &ok); err != nil {
		return err
	}
	if !ok {
		what := map[uint32]string{procSet: "to register", procUnset: "to remove"}[proc]
		return fmt.Errorf("%w: %s program %d version %d netid %q %s", ErrRefused, what, n.Program, n.Version, n.Netid, n.Addr)
	}
	return nil
}

// Addr returns the universal address of a program for a transport, as one that can be
// reached from here, or ErrNotRegistered. The version of the program is the one asked for.
func (c *Client) Addr(ctx context.Context, prog, vers uint32, netid string) (string, error) {
	if c.version == version4 && netid == c.netid { // other transports cannot be asked for
		var addr text
		err := c.rpc.Call(ctx, procGetVersAddr, &Entry{Program: prog, Version: vers, Netid: netid}, &addr)
		if err == nil && addr == "" {
			err = notRegistered(prog, vers, netid)
		}
		return atHost(string(addr), c.host), err
	}
	entries, err := c.Dump(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range entries {
		if n.Program == prog && n.Version == vers && n.Netid == netid {
			ip := c.host
			if !ip.IsValid() {
				return reachable(n.Addr, ip), nil
			}
			return atHost(n.Addr, ip), nil
		}
	}
	return "", notRegistered(prog, vers, netid)
}

func notRegistered(prog, vers uint32, netid string) error {
	return fmt.Errorf("%w: program %d version %d for netid %q", ErrNotRegistered, prog, vers, netid)
}

// Dump returns all entries (RPCBPROC_DUMP).
func (c *Client) Dump(ctx context.Context) ([]Entry, error) {
	if c.version == version2 {
		return c.Ports(ctx)
	}
	l := entryList{min: minEntry}
	err := c.rpc.Call(ctx, procDump, xdr.Void{}, &l)
	return l.items, err
}

// Endpoints returns the addresses of a program at transports of the family by which the
// client asks (RPCBPROC_GETADDRLIST, of version 4).
func (c *Client) Endpoints(ctx context.Context, prog, vers uint32) ([]Endpoint, error) {
	l := endpointList{min: minEndpoint}
	err := c.rpc.Program(program, version4).Call(ctx, procGetAddrList, &Entry{Program: prog, Version: vers}, &l)
	return l.items, err
}

// Time returns the machine's clock, in seconds (RPCBPROC_GETTIME, from version 3 on).
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	var n number
	err := c.rpc.Call(ctx, procGetTime, xdr.Void{}, &n)
	return time.Unix(int64(n), 0), err
}

// port returns the port of a program by version 2 (PMAPPROC_GETPORT), for netid "tcp" or
// "udp", or ErrNotRegistered. The program may have other versions there than vers.
func (c *Client) Port(ctx context.Context, prog, vers uint32, netid string) (uint16, error) {
	var port number
	m := mapping{prog: prog, vers: vers, proto: protoOf(netid)}
	if err := c.rpc.Program(program, version2).Call(ctx, procGetAddr, &m, &port); err != nil {
		return 0, err
	}
	if port == 0 || port > 65535 {
		return 0, notRegistered(prog, vers, netid)
	}
	return uint16(port), nil
}

// Ports returns all entries by version 2 (PMAPPROC_DUMP).
func (c *Client) Ports(ctx context.Context) ([]Entry, error) {
	l := mappingList{min: minMapping}
	if err := c.rpc.Program(program, version2).Call(ctx, procDump, xdr.Void{}, &l); err != nil {
		return nil, err
	}
	var entries []Entry
	for _, m := range l.items {
		if netid := netidOf(m.proto); netid != "" && m.port <= 65535 {
			any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.port))
			entries = append(entries, Entry{Program: m.prog, Version: m.vers, Netid: netid, Addr: universal(any4)})
		}
	}
	return entries, nil
}

// Indirect has rpcbind call a procedure of a program at its machine, and returns the
// program's universal address. By version 4 errors are told (RPCBPROC_INDIRECT); by
// versions 2 and 3 a call that fails has no reply (PMAPPROC_CALLIT), which is
// vrpc.ErrTimeout. Many machines do not make such calls.
func (c *Client) Indirect(ctx context.Context, prog, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) (string, error) {
	encoded, err := xdr.Append(nil, args)
	if err != nil {
		return "", err
	}
	through := uint32(procIndirect)
	if c.version != version4 {
		through = procCallit
	}
	r := rmtresult{v2: c.version == version2}
	if err := c.rpc.Call(ctx, through, &rmtcall{prog, vers, proc, encoded}, &r); err != nil {
		return "", err
	}
	return r.addrAt(c.host), r.decode(res)
}

// addrAt returns the universal address of the program that was called at ip.
func (r *rmtresult) addrAt(ip netip.Addr) string {
	if r.v2 {
		if !ip.IsValid() {
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		return universal(netip.AddrPortFrom(ip, uint16(r.port)))
	}
	return atHost(r.addr, ip)
}

func (r *rmtresult) decode(res xdr.Unmarshaler) error {
	if r.port > 65535 {
		return fmt.Errorf("%w: rpcbind says that the program is at port %d", vrpc.ErrBadReply, r.port)
	}
	if err := xdr.Unmarshal(r.results, res); err != nil {
		return fmt.Errorf("%w: results by way of rpcbind: %w", vrpc.ErrBadReply, err)
	}
	return nil
}

func protoOf(netid string) uint32 {
	switch netid {
	case "tcp":
		return protoTCP
	case "udp":
		return protoUDP
	}
	return 0
}

func netidOf(proto uint32) string {
	switch proto {
	case protoTCP:
		return "tcp"
	case protoUDP:
		return "udp"
	}
	return ""
}

// DialProgram returns a client of a program at a host, wherever rpcbind there says that it
// listens. The network is "tcp", "udp", "tcp6" or "udp6"; rpcbind is asked over it, too. The
// host may have rpcbind's port with it.
func DialProgram(ctx context.Context, network, host string, prog, vers uint32, cfg *vrpc.ClientConfig) (*vrpc.Client, error) {
	c, err := Dial(ctx, network, host, cfg)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	addr, err := c.Addr(ctx, prog, vers, c.netid)
	if err != nil {
		return nil, err
	}
	n := Entry{Netid: c.netid, Addr: addr}
	network, address, err := n.NetworkAddr()
	if err != nil {
		return nil, err
	}
	return vrpc.Dial(ctx, network, address, prog, vers, cfg)
}

// Answer is a server's reply to a broadcast.
type Answer struct {
	From netip.AddrPort // rpcbind there
	Addr string         // the program's universal address
}

// Broadcast has the rpcbind of every machine that it reaches call a procedure (PMAPPROC_CALLIT,
// which is what all versions of rpcbind answer), and collects the replies until the context
// ends or each returns false, which is no error. Before each call of each the results are in
// res. If to is empty, the question goes to the broadcast address of each network. Machines whose rpcbind
// makes no remote calls, or that do not have the program, are not heard of.
func Broadcast(ctx context.Context, to []netip.AddrPort, prog, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, each func(Answer) bool, cfg *vrpc.ClientConfig) error {
	encoded, err := xdr.Append(nil, args)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		if to, err = broadcastAddrs(); err != nil {
			return err
		}
	}
	r := rmtresult{v2: true}
	take := func(from netip.AddrPort) bool {
		if r.decode(res) != nil {
			return true // it is somebody who speaks another program
		}
		return each(Answer{from, r.addrAt(from.Addr())})
	}
	return vrpc.Broadcast(ctx, to, program, version2, procCallit, &rmtcall{prog, vers, proc, encoded}, &r, take, cfg)
}

// broadcastAddrs returns rpcbind's port at the broadcast address of each network that the
// machine is in by IP version 4, and at the loopback.
func broadcastAddrs() (list []netip.AddrPort, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok || n.IP.To4() == nil {
				continue
			}
			if to, ok := netip.AddrFromSlice(broadcastOf(n.IP.To4(), n.Mask, i.Flags)); ok {
				list = append(list, netip.AddrPortFrom(to, port))
			}
		}
	}
	return list, nil
}

// broadcastOf returns the broadcast address of a network, or an interface's own address if it
// has no broadcasts.
func broadcastOf(ip net.IP, mask net.IPMask, flags net.Flags) net.IP {
	if flags&net.FlagBroadcast == 0 || len(mask) != net.IPv4len {
		return ip
	}
	all := make(net.IP, net.IPv4len)
	binary.BigEndian.PutUint32(all, binary.BigEndian.Uint32(ip)|^binary.BigEndian.Uint32(mask))
	return all
}

// remotePatience is how long a call may take that is made for somebody else.
const remotePatience = 10 * time.Second

// remote returns the procedure that calls another one for its caller. But for INDIRECT there
// is no reply where that call has none, so that a broadcast is answered only by those who
// have something to say.
func (s *Server) remote(version, proc uint32, name string) vrpc.Procedure {
	indirect := proc == procIndirect
	return s.counted(version, proc, name, vrpc.Proc(proc, name, func(c *vrpc.Call, arg *rmtcall, res *rmtresult) error {
		err := s.forward(c, version, arg, res)
		s.tally(version).remoteCall(arg, c.Peer().Netid, indirect, err == nil)
		if err != nil && !indirect {
			return vrpc.ErrNoReply
		}
		return err
	}))
}

// forward makes the call. Its error is what the caller of INDIRECT is told.
func (s *Server) forward(c *vrpc.Call, version uint32, arg *rmtcall, res *rmtresult) error {
	if !s.cfg.RemoteCalls || arg.prog == program {
		return vrpc.ProcUnavail
	}
	to, ok := s.programAddr(arg.prog, arg.vers)
	if !ok {
		return vrpc.ProgUnavail
	}
	network, address, err := to.NetworkAddr()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), remotePatience)
	defer cancel()
	client, err := vrpc.Dial(ctx, network, address, arg.prog, arg.vers, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	args, results := raw(arg.args), raw(nil)
	if err := client.Call(ctx, arg.proc, &args, &results); err != nil {
		return told(err)
	}
	to.Addr = reachable(s.table.find(arg.prog, arg.vers, to.Netid, true), peerIP(c))
	*res = rmtresult{addr: to.Addr, port: portOf(to.Addr), results: results, v2: version == version2}
	return nil
}

// told returns what another server has answered, as an answer of this one.
func told(err error) error {
	var rpc *vrpc.RPCError
	if !errors.As(err, &rpc) {
		return err
	}
	switch stat := rpc.Stat.(type) {
	case vrpc.AcceptStat:
		if stat != vrpc.ProgMismatch { // whose versions would be this program's
			return stat
		}
		return vrpc.ProgUnavail
	case vrpc.AuthStat:
		return stat
	}
	return err
}

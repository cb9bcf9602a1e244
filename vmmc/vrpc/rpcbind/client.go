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

// Results of a request, for errors.Is.
var (
	// ErrNotRegistered: the program is not registered for the transport.
	ErrNotRegistered = errors.New("rpcbind: not registered")
	// ErrRefused: rpcbind answered a change with false. Something else is registered there, the
	// entry belongs to another user, or rpcbind accepts no changes over this transport.
	ErrRefused = errors.New("rpcbind: refused")
)

// Client is a client of one machine's rpcbind. It uses the highest version that both sides support:
// 4, 3 or 2. Goroutines may share it.
type Client struct {
	rpc     *vrpc.Client
	version uint32
	netid   string     // of its own transport
	host    netip.Addr // rpcbind's machine; invalid for this one
}

// Dial connects to rpcbind at an address and agrees on a version with it. The network is "tcp",
// "udp" and so on, and the address a host, or a host and a port. For the network "unix" the address
// is the path of a socket.
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

// negotiate finds the highest version that both sides support.
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

// Local returns a client of this machine's rpcbind. It tries rpcbind's socket first, through which
// programs can register, and then TCP.
func Local(ctx context.Context, cfg *vrpc.ClientConfig) (*Client, error) {
	c, err := Dial(ctx, "unix", socket, cfg)
	if err == nil {
		return c, nil
	}
	c, err2 := Dial(ctx, "tcp", "127.0.0.1", cfg)
	if err2 != nil {
		return nil, fmt.Errorf("rpcbind: connect to this machine's rpcbind: %w; %w", err, err2)
	}
	return c, nil
}

// Version returns the protocol version in use.
func (c *Client) Version() uint32 { return c.version }

// Close ends the client and all its calls.
func (c *Client) Close() error { return c.rpc.Close() }

// Set registers an entry (RPCBPROC_SET). Registering the same entry again is not an error. If the
// program has a different address for the transport, Set returns ErrRefused. Version 2 knows the
// netids "tcp" and "udp" only.
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

// Unset removes the program's entry for a transport, or all its entries if netid is empty
// (RPCBPROC_UNSET). If there is no entry, or it belongs to another user, Unset returns ErrRefused.
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

// Addr returns the universal address of a program for a transport. The address is one that this
// machine can reach. If exactly this version of the program is not registered, the error is
// ErrNotRegistered.
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

// Endpoints returns a program's addresses on all transports of one family: that of the client's own
// connection (RPCBPROC_GETADDRLIST, version 4).
func (c *Client) Endpoints(ctx context.Context, prog, vers uint32) ([]Endpoint, error) {
	l := endpointList{min: minEndpoint}
	err := c.rpc.Program(program, version4).Call(ctx, procGetAddrList, &Entry{Program: prog, Version: vers}, &l)
	return l.items, err
}

// Time returns the machine's clock in seconds (RPCBPROC_GETTIME, version 3 and later).
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	var n number
	err := c.rpc.Call(ctx, procGetTime, xdr.Void{}, &n)
	return time.Unix(int64(n), 0), err
}

// Port returns the port of a program for netid "tcp" or "udp", by version 2 (PMAPPROC_GETPORT), or
// ErrNotRegistered. The program there may have a version other than vers.
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

// Ports returns all entries, by version 2 (PMAPPROC_DUMP).
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

// Indirect asks rpcbind to call a procedure of a program on its machine. It also returns the
// program's universal address. Version 4 reports errors (RPCBPROC_INDIRECT). With versions 2 and 3
// a failed call has no reply (PMAPPROC_CALLIT), so that Indirect returns vrpc.ErrTimeout. Many
// machines do not permit such calls.
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
		return fmt.Errorf("%w: rpcbind returned port %d for the program", vrpc.ErrBadReply, r.port)
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

// DialProgram asks rpcbind at a host where a program listens, and returns a client of the program.
// The network is "tcp", "udp", "tcp6" or "udp6", for rpcbind as well. The host may include
// rpcbind's port.
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

// Broadcast calls a procedure on every machine in reach, through the rpcbind there, and passes the
// replies to each (PMAPPROC_CALLIT, which all versions of rpcbind answer). It returns when the context
// ends or each returns false; neither is an error. Before each call of each, the results are in res. If
// to is empty, Broadcast sends to the broadcast address of each network. Machines that do not have the
// program, or whose rpcbind makes no remote calls, do not reply.
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
			return true // a server of another program
		}
		return each(Answer{from, r.addrAt(from.Addr())})
	}
	return vrpc.Broadcast(ctx, to, program, version2, procCallit, &rmtcall{prog, vers, proc, encoded}, &r, take, cfg)
}

// broadcastAddrs returns rpcbind's port at the broadcast address of each IPv4 network of the
// machine, and at the loopback.
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

// broadcastOf returns the broadcast address of a network, or the interface's own address if it has
// no broadcasts.
func broadcastOf(ip net.IP, mask net.IPMask, flags net.Flags) net.IP {
	if flags&net.FlagBroadcast == 0 || len(mask) != net.IPv4len {
		return ip
	}
	all := make(net.IP, net.IPv4len)
	binary.BigEndian.PutUint32(all, binary.BigEndian.Uint32(ip)|^binary.BigEndian.Uint32(mask))
	return all
}

// remotePatience limits the time of a call that rpcbind makes for a client.
const remotePatience = 10 * time.Second

// remote returns the procedure that calls another one for its caller. If that call fails, only
// INDIRECT gets a reply. So only servers with a result answer a broadcast.
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

// forward makes the call. The caller of INDIRECT receives its error.
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

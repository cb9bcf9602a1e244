package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The program that is measured.
const (
	rpcProgram = 0x20000b0b
	rpcVersion = 1

	rpcEcho = 1 // returns its argument
	rpcRead = 2 // returns the requested number of bytes
	rpcOver = 3 // the client has received all replies
)

// Defaults of package vrpc, in bytes.
const (
	defaultRing       = 256 << 10
	defaultMaxMessage = 4 << 20
)

// rpcAhead is the number of concurrent calls of a stream.
const rpcAhead = 4

// rpcRing returns the size, in bytes, of a client's memory for replies over VMMC. It is large
// enough that the server need not wait for room.
func rpcRing(size int) int { return min(max(defaultRing, 4*rpcAhead*(size+rpcRoom)), 4<<20) }

// rpcRoom is the maximum number of bytes of a message in addition to its payload.
const rpcRoom = 512

// rpcCarrier is a transport for calls, which is a mode of the stack vrpc.
type rpcCarrier struct {
	name    string
	max     int  // bytes of payload
	mapped  bool // over VMMC: measured on every link and with both kinds of wait
	inPlace bool // results are neither copied by the server nor by the client
	// serve starts the server, and returns the address for dial. Both may set the connection's on
	// and p.
	serve func(ctx context.Context, r *rpcConn, h *Half, c Case) (address string, err error)
	dial  func(ctx context.Context, r *rpcConn, h *Half, c Case, address string, cfg *vrpc.ClientConfig) (*vrpc.Client, error)
}

// rpcCarriers is in the order of the output.
var rpcCarriers = []rpcCarrier{
	{name: "vmmc", max: MaxSize, mapped: true, serve: serveMapped, dial: dialMapped},
	{name: "vmmc-inplace", max: MaxSize, mapped: true, inPlace: true, serve: serveMapped, dial: dialMapped},
	kernelCarrier("tcp", MaxSize), kernelCarrier("udp", udpMax-rpcRoom),
}

// kernelCarrier returns a transport of the kernel over the measured interface.
func kernelCarrier(network string, max int) rpcCarrier {
	return rpcCarrier{
		name: network, max: max,
		serve: func(_ context.Context, r *rpcConn, h *Half, _ Case) (string, error) {
			if !h.IP.IsValid() {
				return "", errNoIP
			}
			addr, err := r.server.Listen(network, netip.AddrPortFrom(h.IP, 0).String())
			if err != nil {
				return "", err
			}
			return addr.String(), nil
		},
		dial: func(ctx context.Context, _ *rpcConn, _ *Half, _ Case, address string, cfg *vrpc.ClientConfig) (*vrpc.Client, error) {
			return vrpc.Dial(ctx, network, address, rpcProgram, rpcVersion, cfg)
		},
	}
}

// serveMapped serves over VMMC. The address begins with the scope of the processes, which the
// address of the server's NIC makes unique.
func serveMapped(ctx context.Context, r *rpcConn, h *Half, c Case) (string, error) {
	if err := r.openProcess(ctx, h, c, 1, ""); err != nil {
		return "", err
	}
	name, err := r.server.ListenVMMC(r.p, vmmcBoard, vmmc.Everybody)
	return fmt.Sprint(r.on.address(), " ", vrpc.VMMCAddr(name)), err
}

func dialMapped(ctx context.Context, r *rpcConn, h *Half, c Case, address string, cfg *vrpc.ClientConfig) (*vrpc.Client, error) {
	scope, address, _ := strings.Cut(address, " ")
	if err := r.openProcess(ctx, h, c, 0, scope); err != nil {
		return nil, err
	}
	name, err := vrpc.ParseVMMC(address)
	if err != nil {
		return nil, err
	}
	return vrpc.DialVMMC(ctx, r.p, name, rpcProgram, rpcVersion, cfg)
}

// openProcess opens a process on what the case runs on.
func (r *rpcConn) openProcess(ctx context.Context, h *Half, c Case, number uint32, scope string) (err error) {
	if r.on, err = h.openBase(ctx, c); err == nil {
		r.p, err = vmmc.Open(ctx, &vmmc.Config{NIC: r.on.nic, Card: r.on.sends, Process: number, Job: "perf-" + cmp.Or(scope, r.on.address())})
	}
	return err
}

// vrpcStack is a client of a server of one program.
type vrpcStack struct{}

// Cases is part of Stack. Calls of the null procedure count as latencies of 0 bytes. Variants that
// differ in the handling of results are only measured for calls with results.
func (vrpcStack) Cases(p *Plan, test string, mtu, size int) []Case {
	sizes := []int{size}
	if test == Latency && size == p.sizes(test)[0] {
		sizes = []int{0, size}
	}
	var cases []Case
	for _, size := range sizes {
		for i := range rpcCarriers {
			if carrier := &rpcCarriers[i]; size <= carrier.max && (test == Bandwidth || !carrier.inPlace) {
				cases = append(cases, carrier.cases(p, Case{Stack: "vrpc", Test: test, Mode: carrier.name, MTU: mtu, Size: size})...)
			}
		}
		cases = append(cases, libtirpcCases(p, test, mtu, size)...)
	}
	return cases
}

// cases returns the variants of c for the carrier.
func (carrier *rpcCarrier) cases(p *Plan, c Case) (cases []Case) {
	if !carrier.mapped {
		c.Wait = Block
		return []Case{c}
	}
	c.Reliability = "delivery"
	for _, c.Link = range p.Links {
		for _, c.Wait = range p.Waits {
			cases = append(cases, c)
		}
	}
	return cases
}

// payload is an argument or a result.
type payload struct{ data []byte }

func (p *payload) MarshalXDR(e *xdr.Encoder)   { e.Opaque(p.data, xdr.Unbounded) }
func (p *payload) UnmarshalXDR(d *xdr.Decoder) { p.data = d.Opaque(p.data, xdr.Unbounded) }

// rpcConn is one end: of the server, or of a client of it.
type rpcConn struct {
	server  *vrpc.Server
	client  *vrpc.Client
	inPlace bool
	on      *base         // over VMMC; nil otherwise
	p       *vmmc.Process // over VMMC
	data    []byte
	over    chan struct{} // at the server: receives a value for each call of rpcOver
	forget  func()        // ends watching
	arg     payload       // the client's
	res     payload
	void    xdr.Void
}

// Open is part of Stack. The server names its address.
func (vrpcStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	if c.Mode == libtirpc {
		return openLibtirpc(ctx, h, c)
	}
	for i := range rpcCarriers {
		carrier := &rpcCarriers[i]
		if carrier.name != c.Mode {
			continue
		}
		r := &rpcConn{data: make([]byte, c.Size), over: make(chan struct{}, 1), inPlace: carrier.inPlace, forget: func() {}}
		occupy(r.data)
		open := r.openClient
		if h.server {
			open = r.openServer
		}
		if err := open(ctx, carrier, h, c); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		seen := Opened{Process: r.p, Server: r.server}
		if r.on != nil {
			seen.NIC = r.on.nic
		}
		r.forget = h.watch(seen)
		return r, nil
	}
	return nil, errors.New("perf: vrpc: unknown mode " + c.Mode + " (do both halves have the same version?)")
}

// openServer creates the server's end. It answers calls in the background.
func (r *rpcConn) openServer(ctx context.Context, carrier *rpcCarrier, h *Half, c Case) error {
	r.server = vrpc.NewServer(&vrpc.ServerConfig{MaxMessage: max(defaultMaxMessage, c.Size+rpcRoom)})
	err := r.server.Register(&vrpc.Program{Number: rpcProgram, Version: rpcVersion, ResultsInPlace: r.inPlace, Procedures: []vrpc.Procedure{
		vrpc.Proc(rpcEcho, "ECHO", func(_ *vrpc.Call, arg, res *payload) error { *res = *arg; return nil }),
		vrpc.Proc(rpcRead, "READ", func(_ *vrpc.Call, _ *xdr.Void, res *payload) error { res.data = r.data; return nil }),
		vrpc.Proc(rpcOver, "OVER", r.takeOver),
	}})
	if err != nil {
		return err
	}
	address, err := carrier.serve(ctx, r, h, c)
	if err == nil {
		_, err = h.Exchange(address)
	}
	return err
}

// openClient creates the client's end.
func (r *rpcConn) openClient(ctx context.Context, carrier *rpcCarrier, h *Half, c Case) error {
	address, err := h.Exchange("")
	if err != nil {
		return err
	}
	cfg := &vrpc.ClientConfig{MaxMessage: max(defaultMaxMessage, c.Size+rpcRoom), Timeout: sampleTimeout, Ring: rpcRing(c.Size)}
	r.arg.data = r.data
	r.client, err = carrier.dial(ctx, r, h, c, address, cfg)
	return err
}

// PingPong is part of Conn.
func (r *rpcConn) PingPong(ctx context.Context, rtt []int64) error {
	base := time.Now()
	last := time.Duration(0)
	for i := range rtt {
		if err := r.call(ctx); err != nil {
			return err
		}
		now := time.Since(base)
		rtt[i] = int64(now - last)
		last = now
	}
	return r.tellOver(ctx)
}

// call makes a call whose argument and result are of the case's size.
func (r *rpcConn) call(ctx context.Context) error {
	if len(r.data) == 0 {
		return r.client.Ping(ctx)
	}
	return r.client.Call(ctx, rpcEcho, &r.arg, &r.res)
}

// Stream is part of Conn. It receives replies of the case's size, like a program that reads ahead.
func (r *rpcConn) Stream(ctx context.Context, n int) (int, error) {
	var calls [rpcAhead]vrpc.Started
	for begun, done := 0, 0; done < n; done++ {
		for ; begun < n && begun-done < rpcAhead; begun++ {
			var err error
			if calls[begun%rpcAhead], err = r.client.Start(ctx, rpcRead, r.void); err != nil {
				return 0, err
			}
		}
		if err := r.take(ctx, calls[done%rpcAhead]); err != nil {
			return 0, err
		}
	}
	return n, r.tellOver(ctx)
}

// take takes a reply of the size.
func (r *rpcConn) take(ctx context.Context, call vrpc.Started) error {
	if !r.inPlace {
		return call.Wait(ctx, &r.res)
	}
	r.res = payload{} // r.res refers to data of the previous reply
	reply, err := call.WaitInPlace(ctx, &r.res)
	if err == nil {
		reply.Release()
	}
	return err
}

// tellOver ends the server's Echo or Sink.
func (r *rpcConn) tellOver(ctx context.Context) error {
	return r.client.Call(ctx, rpcOver, r.void, &r.void)
}

// takeOver is the procedure that tellOver calls.
func (r *rpcConn) takeOver(c *vrpc.Call, _, _ *xdr.Void) error {
	select {
	case r.over <- struct{}{}:
		return nil
	case <-c.Context().Done():
		return c.Context().Err()
	}
}

// Echo is part of Conn: the server answers until the client has all replies.
func (r *rpcConn) Echo(ctx context.Context, _ int) error {
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sink is part of Conn.
func (r *rpcConn) Sink(ctx context.Context, n int) error { return r.Echo(ctx, n) }

// Counters implements Conn. It does not read the kernel's count of retransmissions.
func (r *rpcConn) Counters() Counters {
	if r.on == nil {
		return Counters{}
	}
	return r.on.counters()
}

// Close implements Conn, and closes everything that the connection has opened.
func (r *rpcConn) Close() error {
	r.forget()
	var errs []error
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	if r.server != nil {
		errs = append(errs, r.server.Close())
	}
	if r.p != nil {
		errs = append(errs, r.p.Close())
	}
	if r.on != nil {
		errs = append(errs, r.on.Close())
	}
	return errors.Join(errs...)
}

package perf

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The program that is measured.
const (
	rpcProgram = 0x20000b0b
	rpcVersion = 1

	rpcEcho = 1 // returns its argument
	rpcRead = 2 // returns as many octets as it is asked for
	rpcOver = 3 // the client has all replies
)

// rpcRoom is how much longer than its payload a message may be, in bytes.
const rpcRoom = 512

// rpcCarrier is what carries calls: a mode of the stack vrpc. Both halves open an end.
type rpcCarrier struct {
	name string
	max  int // bytes of payload
	// serve has the server answer, and returns what dial needs to know.
	serve func(s *vrpc.Server, h *Half) (address string, err error)
	dial  func(ctx context.Context, address string, cfg *vrpc.ClientConfig) (vrpc.Transport, error)
}

// rpcCarriers is in the order of the output.
var rpcCarriers = []rpcCarrier{kernelCarrier("tcp", MaxSize), kernelCarrier("udp", udpMax-rpcRoom)}

// kernelCarrier is a transport of the kernel, over the interface that is measured.
func kernelCarrier(network string, max int) rpcCarrier {
	return rpcCarrier{
		name: network, max: max,
		serve: func(s *vrpc.Server, h *Half) (string, error) {
			if !h.IP.IsValid() {
				return "", errNoIP
			}
			addr, err := s.Listen(network, netip.AddrPortFrom(h.IP, 0).String())
			if err != nil {
				return "", err
			}
			return addr.String(), nil
		},
		dial: func(ctx context.Context, address string, cfg *vrpc.ClientConfig) (vrpc.Transport, error) {
			return vrpc.DialTransport(ctx, network, address, cfg)
		},
	}
}

// vrpcStack is a client of a server of one program.
type vrpcStack struct{}

// Cases is part of Stack. Calls of the null procedure are latencies of 0 bytes.
func (vrpcStack) Cases(p *Plan, test string, mtu, size int) []Case {
	sizes := []int{size}
	if test == Latency && size == p.sizes(test)[0] {
		sizes = []int{0, size}
	}
	var cases []Case
	for _, size := range sizes {
		for _, carrier := range rpcCarriers {
			if size <= carrier.max {
				cases = append(cases, Case{Stack: "vrpc", Test: test, Wait: Block, Mode: carrier.name, MTU: mtu, Size: size})
			}
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
	server *vrpc.Server
	client *vrpc.Client
	data   []byte
	over   chan struct{} // the server's: a word from rpcOver
	forget func()        // ends watching the server
	arg    payload       // the client's
	res    payload
	void   xdr.Void
}

// Open is part of Stack. The server names its address.
func (vrpcStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	for _, carrier := range rpcCarriers {
		if carrier.name != c.Mode {
			continue
		}
		if h.server {
			return carrier.openServer(h, c.Size)
		}
		return carrier.openClient(ctx, h, c.Size)
	}
	return nil, errors.New("perf: vrpc has no mode " + c.Mode + "; are both halves of one version?")
}

// openServer makes the end whose calls are answered in the background.
func (carrier *rpcCarrier) openServer(h *Half, size int) (Conn, error) {
	r := &rpcConn{data: make([]byte, size), over: make(chan struct{}, 1)}
	occupy(r.data)
	r.server = vrpc.NewServer(&vrpc.ServerConfig{MaxMessage: max(vrpc.DefaultMaxMessage, size+rpcRoom)})
	r.forget = h.watch(Opened{Server: r.server})
	err := r.server.Register(&vrpc.Program{Number: rpcProgram, Version: rpcVersion, Procedures: []vrpc.Procedure{
		vrpc.Proc(rpcEcho, "ECHO", func(_ *vrpc.Call, arg, res *payload) error { *res = *arg; return nil }),
		vrpc.Proc(rpcRead, "READ", func(_ *vrpc.Call, _ *xdr.Void, res *payload) error { res.data = r.data; return nil }),
		vrpc.Proc(rpcOver, "OVER", r.takeOver),
	}})
	address := ""
	if err == nil {
		address, err = carrier.serve(r.server, h)
	}
	if err == nil {
		_, err = h.Exchange(address)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openClient makes the end that calls.
func (carrier *rpcCarrier) openClient(ctx context.Context, h *Half, size int) (Conn, error) {
	address, err := h.Exchange("")
	if err != nil {
		return nil, err
	}
	cfg := &vrpc.ClientConfig{MaxMessage: max(vrpc.DefaultMaxMessage, size+rpcRoom), Timeout: sampleTimeout}
	transport, err := carrier.dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	r := &rpcConn{client: vrpc.NewClient(transport, rpcProgram, rpcVersion, cfg), data: make([]byte, size)}
	occupy(r.data)
	r.arg.data = r.data
	return r, nil
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

// Stream is part of Conn: replies of the size, one after another, as a program gets them
// that needs what it asks for.
func (r *rpcConn) Stream(ctx context.Context, n int) (int, error) {
	for range n {
		if err := r.client.Call(ctx, rpcRead, r.void, &r.res); err != nil {
			return 0, err
		}
	}
	return n, r.tellOver(ctx)
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

// Counters is part of Conn. What the kernel sends again is not read.
func (r *rpcConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (r *rpcConn) Close() error {
	if r.client != nil {
		return r.client.Close()
	}
	r.forget()
	return r.server.Close()
}

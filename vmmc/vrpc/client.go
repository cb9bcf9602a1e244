package vrpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// defaultTimeout is how long a call waits for its reply where ClientConfig does not say.
const defaultTimeout = 25 * time.Second

// ClientConfig is how a client calls. The zero value is for most of them.
type ClientConfig struct {
	// Auth says who calls; nil is AUTH_NONE.
	Auth Auth
	// Timeout is how long a call may take with all its retransmissions, besides what its
	// context says; 0 for 25 s, negative for no limit.
	Timeout time.Duration
	// Retry is when a call over UDP is repeated first, 0 for 500 ms; the time doubles with each
	// repetition, up to MaxRetry, 0 for 8 s.
	Retry, MaxRetry time.Duration
	// DialTimeout is how long the making of a connection may take, 0 for 10 s.
	DialTimeout time.Duration
	// MaxMessage is how many bytes a call or a reply over a stream may have, 0 for
	// DefaultMaxMessage.
	MaxMessage int
	// Ring is how many bytes of memory a connection over VMMC has for replies, 0 for
	// DefaultRing. Longer replies come in pieces; one of up to 3/8 of it is in one piece, and
	// its results can be used in place.
	Ring int
	// MaxFragment is how long the fragments of a call over a stream are at most, 0 for
	// calls in one fragment.
	MaxFragment int
}

// Client calls the procedures of one version of a program at one server. Goroutines may
// share it: their calls are under way at the same time.
type Client struct {
	transport  Transport
	prog, vers uint32
	auth       Auth
	timeout    time.Duration
}

// NewClient returns a client over a transport. To close it closes the transport.
func NewClient(t Transport, prog, vers uint32, cfg *ClientConfig) *Client {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	c := &Client{transport: t, prog: prog, vers: vers, auth: cfg.Auth, timeout: cfg.Timeout}
	if c.auth == nil {
		c.auth = authNone{}
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	return c
}

// Program returns a client for another program or version at the same server, which shares
// the transport and the authentication. To close either closes both.
func (c *Client) Program(prog, vers uint32) *Client {
	other := *c
	other.prog, other.vers = prog, vers
	return &other
}

// RemoteAddr returns where the server is, as far as the transport has such an address and
// is connected; nil otherwise.
func (c *Client) RemoteAddr() net.Addr {
	if t, ok := c.transport.(interface{ RemoteAddr() net.Addr }); ok {
		return t.RemoteAddr()
	}
	return nil
}

// Close ends all calls of the transport with ErrClosed.
func (c *Client) Close() error { return c.transport.Close() }

// Call calls a procedure and waits for its results, which it decodes into res. It returns
//
//   - an *RPCError, if the server did not carry out the call; errors.Is finds why
//     (ProgUnavail, GarbageArgs, AuthTooWeak and so on)
//   - an error of xdr, if args cannot be encoded
//   - ErrBadReply, if the results are not as declared, with the error of xdr
//   - the context's error, ErrTimeout, ErrClosed, a message too large or a *TransportError
//
// The args are only read, until Call returns. What is in res after an error is unspecified;
// after the end of the context it is unchanged. The memory that res refers to is decoded
// into again, as the methods of package xdr do it.
func (c *Client) Call(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	x := exchanges.Get().(*Exchange)
	err := c.call(ctx, x, proc, args, res, false)
	if err == nil {
		c.transport.Release(x)
	}
	exchanges.Put(x)
	return err
}

// Ping calls procedure 0, which every program has: nil says that the server has this version
// of the program.
func (c *Client) Ping(ctx context.Context) error { return c.Call(ctx, 0, xdr.Void{}, &xdr.Void{}) }

// Reply is the memory of results that were left in place.
type Reply struct {
	x *Exchange
	t Transport
}

// Release gives the memory back to the transport. It is called once.
func (r Reply) Release() {
	r.t.Release(r.x)
	exchanges.Put(r.x)
}

// CallInPlace is Call, but leaves opaque results in the memory that they arrived in instead
// of copying them. They are valid until the Reply is released; over VMMC this must be
// soon, because the server's next replies need the memory. If there is an error there is
// nothing to release.
func (c *Client) CallInPlace(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) (Reply, error) {
	x := exchanges.Get().(*Exchange)
	if err := c.call(ctx, x, proc, args, res, true); err != nil {
		exchanges.Put(x)
		return Reply{}, err
	}
	return Reply{x, c.transport}, nil
}

// Batch sends a call for whose reply nobody waits, to a procedure that sends none
// (ErrNoReply). The next Call over the same transport pushes out what has been batched, and
// its reply says that the server has seen it all, if the transport is a stream.
func (c *Client) Batch(ctx context.Context, proc uint32, args xdr.Marshaler) error {
	x := exchanges.Get().(*Exchange)
	defer exchanges.Put(x)
	cred, verf := c.auth.Authenticate()
	if err := c.encode(ctx, x, proc, args, cred, verf); err != nil {
		return err
	}
	return c.transport.Send(ctx, x)
}

// call makes the call, once more if the server refuses the credential and there is a better
// one. If it returns nil the reply is still the exchange's.
func (c *Client) call(ctx context.Context, x *Exchange, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, inPlace bool) error {
	for first := true; ; first = false {
		cred, verf := c.auth.Authenticate()
		if err := c.encode(ctx, x, proc, args, cred, verf); err != nil {
			return err
		}
		if err := c.transport.RoundTrip(ctx, x); err != nil {
			return err
		}
		if again, err := c.take(x, proc, cred, res, inPlace); !again || !first {
			return err
		}
	}
}

// take decodes the reply; if that is not possible, the reply is given back. again says that
// the server has refused the credential, and that there is a better one now.
func (c *Client) take(x *Exchange, proc uint32, cred OpaqueAuth, res xdr.Unmarshaler, inPlace bool) (again bool, err error) {
	if err = c.decode(x, proc, cred, res, inPlace); err == nil {
		return false, nil
	}
	c.transport.Release(x)
	if rpc, ok := err.(*RPCError); ok {
		if stat, ok := rpc.Stat.(AuthStat); ok {
			return c.auth.Refresh(cred, stat), err
		}
	}
	return false, err
}

// encode makes the call message, with a transaction id of its own, unless ctx has ended.
func (c *Client) encode(ctx context.Context, x *Exchange, proc uint32, args xdr.Marshaler, cred, verf OpaqueAuth) error {
	x.XID = lastXID.Add(1)
	x.Deadline = time.Time{}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.timeout > 0 {
		x.Deadline = time.Now().Add(c.timeout)
	}
	e := &x.enc
	e.Reset(x.room[:headroom])
	encodeCall(e, x.XID, c.prog, c.vers, proc)
	cred.encode(e)
	verf.encode(e)
	args.MarshalXDR(e)
	x.room = e.Bytes()
	x.Message = x.room[headroom:]
	return e.Err()
}

// decode decodes the reply.
func (c *Client) decode(x *Exchange, proc uint32, cred OpaqueAuth, res xdr.Unmarshaler, inPlace bool) error {
	d := &x.dec
	d.InPlace = inPlace
	d.Reset(x.Reply)
	var h replyHeader
	if !h.decode(d) || d.Err() != nil {
		return fmt.Errorf("%w: %d octets that begin with the transaction id, but are no reply of RFC 5531", ErrBadReply, len(x.Reply))
	}
	if h.stat != nil {
		return &RPCError{Program: c.prog, Version: c.vers, Procedure: proc, Stat: h.stat, Low: h.low, High: h.high}
	}
	if err := c.auth.Verify(cred, h.verf); err != nil {
		return fmt.Errorf("%w: %w", &RPCError{Program: c.prog, Version: c.vers, Procedure: proc, Stat: AuthInvalidResp}, err)
	}
	res.UnmarshalXDR(d)
	if err := d.End(); err != nil {
		return fmt.Errorf("%w: results of program %d version %d procedure %d: %w", ErrBadReply, c.prog, c.vers, proc, err)
	}
	return nil
}

// Started is a call that Client.Start has begun.
type Started struct {
	c    *Client
	x    *Exchange
	proc uint32
	args xdr.Marshaler
	cred OpaqueAuth
}

// Start sends a call and does not wait for its reply, so that one goroutine may have several
// under way, for example to read ahead. Each call that was started is waited for once, by Wait
// or WaitInPlace, and args are only read until then.
//
// Over VMMC replies that nobody has waited for yet lie in the memory of ClientConfig.Ring:
// what has no room there is not sent, and calls wait for it (ServerConfig.RecordTimeout).
func (c *Client) Start(ctx context.Context, proc uint32, args xdr.Marshaler) (Started, error) {
	x := exchanges.Get().(*Exchange)
	cred, verf := c.auth.Authenticate()
	err := c.encode(ctx, x, proc, args, cred, verf)
	if err == nil {
		err = c.send(ctx, x)
	}
	if err != nil {
		exchanges.Put(x)
		return Started{}, err
	}
	return Started{c, x, proc, args, cred}, nil
}

// Wait waits for the results of the call as Client.Call does.
func (s Started) Wait(ctx context.Context, res xdr.Unmarshaler) error {
	err := s.wait(ctx, res, false)
	if err == nil {
		s.c.transport.Release(s.x)
	}
	exchanges.Put(s.x)
	return err
}

// WaitInPlace waits for the results of the call as Client.CallInPlace does.
func (s Started) WaitInPlace(ctx context.Context, res xdr.Unmarshaler) (Reply, error) {
	if err := s.wait(ctx, res, true); err != nil {
		exchanges.Put(s.x)
		return Reply{}, err
	}
	return Reply{s.x, s.c.transport}, nil
}

func (s Started) wait(ctx context.Context, res xdr.Unmarshaler, inPlace bool) error {
	c := s.c
	if err := c.receive(ctx, s.x); err != nil {
		return err
	}
	again, err := c.take(s.x, s.proc, s.cred, res, inPlace)
	if again {
		err = c.call(ctx, s.x, s.proc, s.args, res, inPlace)
	}
	return err
}

// aside is a call by a transport that cannot be left alone with it, on a goroutine of its own.
type aside struct {
	cancel context.CancelFunc
	done   chan error
}

// send sends what encode has made.
func (c *Client) send(ctx context.Context, x *Exchange) error {
	if t, ok := c.transport.(starter); ok {
		return t.Start(ctx, x)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	x.aside = aside{cancel, done}
	go func() { done <- c.transport.RoundTrip(ctx, x) }()
	return nil
}

// receive waits for the reply to what send has sent.
func (c *Client) receive(ctx context.Context, x *Exchange) error {
	if t, ok := c.transport.(starter); ok {
		return t.Finish(ctx, x)
	}
	a := x.aside
	x.aside = aside{}
	defer a.cancel()
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		a.cancel()
		return <-a.done
	}
}

const (
	defaultDialTimeout = 10 * time.Second
	defaultRetry       = 500 * time.Millisecond
	defaultMaxRetry    = 8 * time.Second
)

// Dial returns a client of a program at an address of a network: "tcp", "tcp4", "tcp6", "udp",
// "udp4", "udp6" or "unix". (Package rpcbind finds the address.) Over a stream it connects,
// over UDP it sends nothing. The context is for that only.
func Dial(ctx context.Context, network, address string, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	t, err := DialTransport(ctx, network, address, cfg)
	if err != nil {
		return nil, err
	}
	return NewClient(t, prog, vers, cfg), nil
}

// DialTransport returns the transport that Dial makes a client of.
func DialTransport(ctx context.Context, network, address string, cfg *ClientConfig) (Transport, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	switch network {
	case "udp", "udp4", "udp6":
		dialer := net.Dialer{Timeout: cmp.Or(cfg.DialTimeout, defaultDialTimeout)}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, &TransportError{Addr: address, Err: err}
		}
		return newDatagramClient(conn, cfg), nil
	case "tcp", "tcp4", "tcp6", "unix":
		t := newStreamClient(address, cfg)
		t.dial = func(ctx context.Context) (clientConn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newStreamConn(conn, address, t.max, fragmentLimit(cfg.MaxFragment), &t.clientStats), nil
		}
		return t.connectFirst(ctx)
	}
	return nil, fmt.Errorf("vrpc: network %q: it must be tcp, tcp4, tcp6, udp, udp4, udp6 or unix", network)
}

// refused reports whether an error tells that nobody answers at the port.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// Direct returns a transport to a server of the same process: a call is carried out by the
// goroutine that makes it, and no byte leaves the process. The procedures' context is ctx.
func Direct(ctx context.Context, s *Server) Transport {
	t := &direct{}
	t.sessions.New = func() any { return s.NewSession(ctx, Peer{Netid: "direct"}, s.cfg.MaxMessage) }
	return t
}

type direct struct{ sessions sync.Pool }

func (t *direct) RoundTrip(_ context.Context, x *Exchange) error {
	ss := t.sessions.Get().(*Session)
	reply, err := ss.Answer(x.Message, x.Reply[:0])
	t.sessions.Put(ss)
	if err == nil && len(reply) == 0 {
		err = ErrTimeout // there will be none
	}
	x.Reply = reply
	return err
}

func (t *direct) Release(*Exchange) {}

func (t *direct) Send(ctx context.Context, x *Exchange) error {
	if err := t.RoundTrip(ctx, x); err != ErrTimeout {
		return err
	}
	return nil
}

func (t *direct) Close() error { return nil }

// Transport brings the calls of clients to one server, and its replies back. Clients of
// several programs may share one (Client.Program), and goroutines call it at once.
//
// The transports of this package are made by Dial and DialVMMC. Another one carries whole messages
// and needs to know of them only that a call and its reply begin with the same four bytes.
type Transport interface {
	// RoundTrip sends x.Message and sets x.Reply to the reply that begins with the same
	// transaction id. It ends when the reply is there, with ctx, at x.Deadline (ErrTimeout),
	// or with an error that is or wraps a *TransportError or ErrClosed, or says that the message is too large.
	RoundTrip(ctx context.Context, x *Exchange) error
	// Release says that x.Reply is not used any more. It is called once for each RoundTrip
	// that succeeded.
	Release(x *Exchange)
	// Send sends x.Message, to which no reply is expected. It returns when the message is
	// the transport's; a later RoundTrip pushes out what the transport keeps back.
	Send(ctx context.Context, x *Exchange) error
	// Close ends all calls with ErrClosed.
	Close() error
}

// starter is a Transport that can send calls without waiting for their replies. After a Start
// that succeeds there is one Finish.
type starter interface {
	Start(ctx context.Context, x *Exchange) error
	Finish(ctx context.Context, x *Exchange) error
}

// headroom is how many bytes before a message are the transport's: the record mark.
const headroom = 4

// Exchange is one call on its way through a Transport.
type Exchange struct {
	XID      uint32
	Message  []byte    // the call, unchanged until RoundTrip or Send returns
	Deadline time.Time // zero for none
	Reply    []byte    // valid until Release; its capacity may be used for the reply

	stream clientConn // that it was started on
	heard  uint64     // by that, before
	room   []byte     // headroom, and Message behind it
	record []byte     // headroom, and Reply behind it, if it came by a stream
	done   chan error
	timer  *time.Timer
	far          // over VMMC
	aside  aside // by a Transport that is no starter
	enc    xdr.Encoder
	dec    xdr.Decoder
}

var exchanges = sync.Pool{New: func() any {
	x := &Exchange{done: make(chan error, 1), timer: time.NewTimer(time.Hour), room: make([]byte, headroom, 512)}
	x.timer.Stop()
	return x
}}

// lastXID is the transaction id drawn last by this process. It begins at random, so that
// a server does not take the calls of a restarted client for those before.
var lastXID = func() *atomic.Uint32 {
	var seed [4]byte
	rand.Read(seed[:])
	n := new(atomic.Uint32)
	n.Store(binary.BigEndian.Uint32(seed[:]))
	return n
}()

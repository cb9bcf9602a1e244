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

// defaultTimeout is the default of ClientConfig.Timeout.
const defaultTimeout = 25 * time.Second

// ClientConfig configures a client. The zero value suits most clients.
type ClientConfig struct {
	// Auth authenticates the calls; nil means AUTH_NONE.
	Auth Auth
	// Timeout bounds a call with all its retransmissions, in addition to its context; 0 means 25 s,
	// negative means no limit.
	Timeout time.Duration
	// Retry is the time before the first retransmission of a call over UDP; 0 means 500 ms. The
	// time doubles with each retransmission, up to MaxRetry; 0 means 8 s.
	Retry, MaxRetry time.Duration
	// DialTimeout bounds the setup of a connection; 0 means 10 s.
	DialTimeout time.Duration
	// MaxMessage is the maximum length, in bytes, of a call or a reply over a stream; 0
	// means 4 MiB.
	MaxMessage int
	// Ring is the memory in bytes of a connection over VMMC for replies; 0 means 256 KiB.
	// Longer replies arrive in pieces. A reply of up to 3/8 of Ring arrives in one piece, and its
	// results can be used in place.
	Ring int
	// MaxFragment is the longest fragment of a call over a stream, in bytes; 0 means that each call
	// is one fragment.
	MaxFragment int
}

// Client calls the procedures of one version of a program at one server. Goroutines may share it,
// and their calls run concurrently.
type Client struct {
	transport  Transport
	prog, vers uint32
	auth       Auth
	timeout    time.Duration
}

// NewClient returns a client over a transport. Closing the client closes the transport.
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

// Program returns a client for another program or version at the same server. It shares the
// transport and the authentication. Closing either closes both.
func (c *Client) Program(prog, vers uint32) *Client {
	other := *c
	other.prog, other.vers = prog, vers
	return &other
}

// RemoteAddr returns the server's address, or nil if the transport has no such address or is not
// connected.
func (c *Client) RemoteAddr() net.Addr {
	if t, ok := c.transport.(interface{ RemoteAddr() net.Addr }); ok {
		return t.RemoteAddr()
	}
	return nil
}

// Close closes the client. It ends all calls of the transport with ErrClosed.
func (c *Client) Close() error { return c.transport.Close() }

// Call calls a procedure, waits for its results and decodes them into res. It returns
//
//   - an *RPCError, if the server did not run the procedure; errors.Is finds the reason
//     (ProgUnavail, GarbageArgs, AuthTooWeak and so on)
//   - an error of xdr, if args cannot be encoded
//   - ErrBadReply, wrapping the error of xdr, if the results do not match their declaration
//   - the context's error, ErrTimeout, ErrClosed, a message too large or a *TransportError
//
// Call only reads args, until it returns. After an error the contents of res are unspecified; after
// the end of the context res is unchanged. Call reuses the memory that res refers to, as the
// methods of package xdr do.
func (c *Client) Call(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	x := exchanges.Get().(*Exchange)
	err := c.call(ctx, x, proc, args, res, false)
	if err == nil {
		c.transport.Release(x)
	}
	exchanges.Put(x)
	return err
}

// Ping calls procedure 0, which every program has. Nil means that the server has this version of
// the program.
func (c *Client) Ping(ctx context.Context) error { return c.Call(ctx, 0, xdr.Void{}, &xdr.Void{}) }

// Reply is the memory of results that were left in place.
type Reply struct {
	x *Exchange
	t Transport
}

// Release returns the memory to the transport. It must be called once.
func (r Reply) Release() {
	r.t.Release(r.x)
	exchanges.Put(r.x)
}

// CallInPlace is Call, but leaves opaque results in the memory in which they arrived, instead of
// copying them. They are valid until the Reply is released. Over VMMC release it soon, because the
// server's next replies need the memory. If CallInPlace returns an error, there is nothing to
// release.
func (c *Client) CallInPlace(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) (Reply, error) {
	x := exchanges.Get().(*Exchange)
	if err := c.call(ctx, x, proc, args, res, true); err != nil {
		exchanges.Put(x)
		return Reply{}, err
	}
	return Reply{x, c.transport}, nil
}

// Batch sends a call to a procedure that sends no reply (ErrNoReply), and does not wait. The next
// Call over the same transport flushes batched calls. If the transport is a stream, the reply to
// that Call means that the server has received all of them.
func (c *Client) Batch(ctx context.Context, proc uint32, args xdr.Marshaler) error {
	x := exchanges.Get().(*Exchange)
	defer exchanges.Put(x)
	cred, verf := c.auth.Authenticate()
	if err := c.encode(ctx, x, proc, args, cred, verf); err != nil {
		return err
	}
	return c.transport.Send(ctx, x)
}

// call makes the call, and repeats it once if the server refuses the credential and there is a
// better one. If it returns nil, the reply still belongs to the exchange.
func (c *Client) call(ctx context.Context, x *Exchange, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, inPlace bool) error {
	for first := true; ; first = false {
		cred, verf := c.auth.Authenticate()
		if err := c.encode(ctx, x, proc, args, cred, verf); err != nil {
			return err
		}
		if err := c.transport.RoundTrip(ctx, x); err != nil {
			return err
		}
		if again, err := c.decodeReply(x, proc, cred, res, inPlace); !again || !first {
			return err
		}
	}
}

// decodeReply decodes the reply. On an error it releases the reply. again means that the server has
// refused the credential, and that there is a better one now.
func (c *Client) decodeReply(x *Exchange, proc uint32, cred OpaqueAuth, res xdr.Unmarshaler, inPlace bool) (again bool, err error) {
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

// encode builds the call message with a new transaction id, unless ctx has ended.
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
		return fmt.Errorf("%w: %d bytes with the transaction id that are not a reply of RFC 5531", ErrBadReply, len(x.Reply))
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

// Started is a call that was sent by Client.Start.
type Started struct {
	c    *Client
	x    *Exchange
	proc uint32
	args xdr.Marshaler
	cred OpaqueAuth
}

// Start sends a call and does not wait for its reply, so that one goroutine can have several calls
// in flight, for example to read ahead. Each started call must be waited for once, with Wait or
// WaitInPlace. args must not change until then.
//
// Over VMMC, replies that the program has not waited for occupy the memory of ClientConfig.Ring.
// The server does not send replies that do not fit, and further calls wait for it
// (ServerConfig.RecordTimeout).
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

// Wait waits for the results of the call, as Client.Call does.
func (s Started) Wait(ctx context.Context, res xdr.Unmarshaler) error {
	err := s.wait(ctx, res, false)
	if err == nil {
		s.c.transport.Release(s.x)
	}
	exchanges.Put(s.x)
	return err
}

// WaitInPlace waits for the results of the call, as Client.CallInPlace does.
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
	again, err := c.decodeReply(s.x, s.proc, s.cred, res, inPlace)
	if again {
		err = c.call(ctx, s.x, s.proc, s.args, res, inPlace)
	}
	return err
}

// aside is a call on its own goroutine, over a transport that cannot start calls.
type aside struct {
	cancel context.CancelFunc
	done   chan error
}

// send sends the message that encode has built.
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

// receive waits for the reply to the call of send.
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
// "udp4", "udp6" or "unix". (Package rpcbind finds addresses.) It connects over a stream, and sends
// nothing over UDP. ctx bounds only Dial itself.
func Dial(ctx context.Context, network, address string, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	t, err := DialTransport(ctx, network, address, cfg)
	if err != nil {
		return nil, err
	}
	return NewClient(t, prog, vers, cfg), nil
}

// DialTransport returns the transport of the client that Dial would return.
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

// refused reports whether an error means that no process listens at the port.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// Direct returns a transport to a server in the same process. The goroutine that makes a call also
// runs the procedure. ctx is the context of the procedures.
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

// Transport carries the calls of clients to one server, and its replies back. Clients of several
// programs may share one (Client.Program), and goroutines use it concurrently.
//
// Dial and DialVMMC create the transports of this package. A Transport of another package
// must carry whole messages. All it needs to know about them is that a call and its reply
// begin with the same four bytes.
type Transport interface {
	// RoundTrip sends x.Message and sets x.Reply to the reply with the same transaction id. It returns when
	// the reply has arrived, when ctx ends, or at x.Deadline (ErrTimeout). Other errors are or wrap a
	// *TransportError or ErrClosed, or mean that the message is too large.
	RoundTrip(ctx context.Context, x *Exchange) error
	// Release means that x.Reply is no longer used. It is called once for each RoundTrip that
	// succeeded.
	Release(x *Exchange)
	// Send sends x.Message, to which no reply is expected. It returns when the transport has
	// accepted the message. A later RoundTrip flushes messages that the transport holds back.
	Send(ctx context.Context, x *Exchange) error
	// Close ends all calls with ErrClosed.
	Close() error
}

// starter is a Transport that can send calls without waiting for their replies. Each successful
// Start is followed by one Finish.
type starter interface {
	Start(ctx context.Context, x *Exchange) error
	Finish(ctx context.Context, x *Exchange) error
}

// headroom is the space in bytes before a message that belongs to the transport, for the record
// mark.
const headroom = 4

// Exchange is one call with its reply in a Transport.
type Exchange struct {
	XID      uint32
	Message  []byte    // the call, unchanged until RoundTrip or Send returns
	Deadline time.Time // zero for none
	Reply    []byte    // valid until Release; its capacity may be used for the reply

	stream clientConn // on which it was started
	heard  uint64     // its value of heard at the start
	room   []byte     // headroom, followed by Message
	record []byte     // headroom, followed by Reply, if it arrived over a stream
	done   chan error
	timer  *time.Timer
	far          // over VMMC
	aside  aside // over a Transport that is not a starter
	enc    xdr.Encoder
	dec    xdr.Decoder
}

var exchanges = sync.Pool{New: func() any {
	x := &Exchange{done: make(chan error, 1), timer: time.NewTimer(time.Hour), room: make([]byte, headroom, 512)}
	x.timer.Stop()
	return x
}}

// lastXID is the transaction id that this process has used last. It starts at random, so that a
// server does not confuse the calls of a restarted client with earlier ones.
var lastXID = func() *atomic.Uint32 {
	var seed [4]byte
	rand.Read(seed[:])
	n := new(atomic.Uint32)
	n.Store(binary.BigEndian.Uint32(seed[:]))
	return n
}()

package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// clientConn is a connection of a client.
type clientConn interface {
	start(ctx context.Context, x *Exchange) error    // sends a call with all that was kept back
	finish(ctx context.Context, x *Exchange) error   // waits for its reply
	keepBack(ctx context.Context, x *Exchange) error // see Transport.Send
	// read takes replies until the connection ends, if calls do not do that themselves. It
	// returns why it has ended, when nothing of it is left.
	read() error
	fail(err error) // ends it and all its calls
	alive() bool
	remoteAddr() net.Addr
}

// streamClient is the Transport over connections, one at a time: when it has broken, the
// next call makes another. No call is ever sent twice.
type streamClient struct {
	addr        string
	dial        func(context.Context) (clientConn, error)
	dialTimeout time.Duration
	max         int // octets of a message
	ctx         context.Context
	cancel      context.CancelFunc

	mu      sync.Mutex
	closed  bool
	conn    clientConn // nil if there is none
	dialing *dialing   // nil if nobody does
	group   sync.WaitGroup
	clientStats
}

// dialing is an attempt to connect, for which any number of calls wait.
type dialing struct {
	done chan struct{}
	conn clientConn
	err  error
}

// newStreamClient returns a client without a connection; its dial is set afterwards.
func newStreamClient(addr string, cfg *ClientConfig) *streamClient {
	t := &streamClient{
		addr: addr, dialTimeout: cmp.Or(cfg.DialTimeout, defaultDialTimeout), max: cmp.Or(cfg.MaxMessage, DefaultMaxMessage),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// connectFirst makes the connection before there is a call, and returns the transport.
func (t *streamClient) connectFirst(ctx context.Context) (Transport, error) {
	if _, err := t.connect(ctx, nil); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// connect returns the connection, or makes it. It waits as long as x may, if that is not nil.
func (t *streamClient) connect(ctx context.Context, x *Exchange) (clientConn, error) {
	t.mu.Lock()
	if t.closed || t.conn != nil {
		defer t.mu.Unlock()
		if t.closed {
			return nil, ErrClosed
		}
		return t.conn, nil
	}
	d := t.dialing
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		t.dialing = d
		t.group.Go(func() { t.finish(d) })
	}
	t.mu.Unlock()
	var expired <-chan time.Time
	if x != nil && !x.Deadline.IsZero() {
		timer := time.NewTimer(x.left())
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-expired:
		return nil, fmt.Errorf("%w: no connection to %s; nothing was sent", ErrTimeout, t.addr)
	}
}

// finish carries out an attempt to connect.
func (t *streamClient) finish(d *dialing) {
	ctx, cancel := context.WithTimeout(t.ctx, t.dialTimeout)
	defer cancel()
	conn, err := t.dial(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(d.done)
	t.dialing = nil
	switch {
	case t.closed:
		d.err = ErrClosed
		if err == nil {
			conn.fail(ErrClosed)
			t.group.Go(func() { conn.read() })
		}
	case err != nil:
		d.err = &TransportError{Addr: t.addr, Err: err}
	default:
		t.Connections.Add(1)
		d.conn, t.conn = conn, conn
		t.group.Go(func() { t.read(d.conn) })
	}
}

// read reads replies until the connection breaks, and then lets the next call make another.
func (t *streamClient) read(c clientConn) {
	c.fail(c.read())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == c {
		t.conn = nil
	}
}

// RoundTrip sends the call and waits for the reply.
func (t *streamClient) RoundTrip(ctx context.Context, x *Exchange) error {
	if err := t.Start(ctx, x); err != nil {
		return err
	}
	return t.Finish(ctx, x)
}

// Start sends the call.
func (t *streamClient) Start(ctx context.Context, x *Exchange) error {
	c, err := t.prepare(ctx, x)
	if err != nil {
		return err
	}
	x.stream = c
	return t.named(c.start(ctx, x))
}

// Finish waits for the reply.
func (t *streamClient) Finish(ctx context.Context, x *Exchange) error {
	return t.named(x.stream.finish(ctx, x))
}

// named says in the error of a call whose time is over which server it was.
func (t *streamClient) named(err error) error {
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w from %s", ErrTimeout, t.addr)
	}
	return err
}

// Send keeps the call back until the next RoundTrip, or until many are kept.
func (t *streamClient) Send(ctx context.Context, x *Exchange) error {
	c, err := t.prepare(ctx, x)
	if err != nil {
		return err
	}
	return c.keepBack(ctx, x)
}

// prepare returns a connection for x that is not known to be broken.
func (t *streamClient) prepare(ctx context.Context, x *Exchange) (clientConn, error) {
	if len(x.Message) > t.max {
		return nil, fmt.Errorf("%w: a call of %d octets, %d are allowed: raise MaxMessage on both sides", ErrTooLarge, len(x.Message), t.max)
	}
	for {
		c, err := t.connect(ctx, x)
		if err != nil || c.alive() {
			return c, err
		}
		t.mu.Lock()
		if t.conn == c {
			t.conn = nil
		}
		t.mu.Unlock()
	}
}

// Release has nothing to do where the reply is in the exchange's own memory.
func (t *streamClient) Release(x *Exchange) {
	if x.held {
		x.conn.release(x)
	}
}

// RemoteAddr returns where the server is, nil while there is no connection.
func (t *streamClient) RemoteAddr() net.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return nil
	}
	return t.conn.remoteAddr()
}

// Close ends all calls.
func (t *streamClient) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return ErrClosed
	}
	t.closed = true
	if t.conn != nil {
		t.conn.fail(ErrClosed)
	}
	t.mu.Unlock()
	t.cancel()
	t.group.Wait()
	return nil
}

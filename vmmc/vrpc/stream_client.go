package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// clientConn is a connection of a client.
type clientConn interface {
	start(ctx context.Context, x *Exchange) error    // sends a call, after all calls that were held back
	finish(ctx context.Context, x *Exchange) error   // waits for its reply
	keepBack(ctx context.Context, x *Exchange) error // see Transport.Send
	// read receives replies until the connection ends, unless calls do so themselves. It returns
	// the cause of the end, when all resources are released.
	read() error
	fail(err error) // ends it and all its calls
	alive() bool
	remoteAddr() net.Addr
}

// streamClient is the Transport over connections, one at a time. After one has broken, the next
// call makes another. No call is ever sent twice.
type streamClient struct {
	addr        string
	dial        func(context.Context) (clientConn, error)
	dialTimeout time.Duration
	max         int // bytes of a message
	ctx         context.Context
	cancel      context.CancelFunc

	mu      sync.Mutex
	closed  bool
	conn    clientConn // or nil
	dialing *dialing   // or nil
	group   sync.WaitGroup
	clientStats
}

// dialing is an attempt to connect, for which any number of calls may wait.
type dialing struct {
	done chan struct{}
	conn clientConn
	err  error
}

// newStreamClient returns a client without a connection. The caller sets dial afterwards.
func newStreamClient(addr string, cfg *ClientConfig) *streamClient {
	t := &streamClient{
		addr: addr, dialTimeout: cmp.Or(cfg.DialTimeout, defaultDialTimeout), max: cmp.Or(cfg.MaxMessage, defaultMaxMessage),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// connectFirst makes the connection before the first call, and returns the transport.
func (t *streamClient) connectFirst(ctx context.Context) (Transport, error) {
	if _, err := t.connect(ctx, nil); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// connect returns the connection, or makes it. If x is not nil, it waits at most as long as x may.
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

// finish performs an attempt to connect.
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

// read receives replies until the connection breaks, and then allows the next call to make another.
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

// named adds the server's address to the error of a call that has timed out.
func (t *streamClient) named(err error) error {
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w from %s", ErrTimeout, t.addr)
	}
	return err
}

// Send holds the call back until the next RoundTrip, or until many calls are held back.
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
		return nil, fmt.Errorf("%w: call of %d bytes: the limit is %d (raise MaxMessage on both sides)", errTooLarge, len(x.Message), t.max)
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

// Release does nothing if the reply is in the exchange's own memory.
func (t *streamClient) Release(x *Exchange) {
	if x.held {
		x.conn.release(x)
	}
}

// RemoteAddr returns the server's address, or nil without a connection.
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

const (
	// batchMax is the maximum number of bytes of batched calls that are held back.
	batchMax = 16 << 10
	// writeSlice is how long a write may block before its caller checks whether the call's context
	// has ended.
	writeSlice = 100 * time.Millisecond
)

// streamConn is one connection of a client.
type streamConn struct {
	conn  net.Conn
	addr  string
	limit int // bytes of a fragment
	calls *pending
	stats *clientStats
	in    *recordReader
	heard atomic.Uint64 // counts reads, to distinguish a slow server from a dead one

	writing chan struct{} // holds one token, for the writer
	batch   []byte        // whole records, held back
	out     slicedWriter
}

func newStreamConn(conn net.Conn, addr string, max, limit int, stats *clientStats) *streamConn {
	c := &streamConn{conn: conn, addr: addr, limit: limit, stats: stats, calls: newPending(), writing: make(chan struct{}, 1)}
	c.in = newRecordReader(c, max)
	c.out.conn = conn
	return c
}

// Read reads from the connection for the record reader.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.conn.Read(p)
	c.heard.Add(uint64(n))
	return n, err
}

func (c *streamConn) remoteAddr() net.Addr { return c.conn.RemoteAddr() }

func (c *streamConn) alive() bool {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return c.calls.err == nil
}

// fail ends the connection and all its calls, which may have run.
func (c *streamConn) fail(err error) {
	if err != ErrClosed {
		err = &TransportError{Addr: c.addr, Sent: true, Err: err}
	}
	c.calls.fail(err, true)
	c.conn.Close()
}

// read passes replies to the calls that wait for them, until the first error. It passes the memory
// of the reply to the call, and uses the call's memory for the next reply.
func (c *streamConn) read() error {
	var rec []byte
	for {
		var err error
		rec, err = c.in.read(rec)
		if err == io.EOF {
			return errors.New("the server closed the connection")
		}
		if err != nil {
			return err
		}
		xid, ok := messageXID(rec[headroom:], msgReply)
		if !ok {
			c.stats.NotAReply.Add(1)
			return fmt.Errorf("%w: a record of %d bytes that is not a reply", ErrBadReply, len(rec)-headroom)
		}
		x := c.calls.removeID(xid)
		if x == nil {
			c.stats.Strays.Add(1)
			continue
		}
		x.record, rec = rec, x.record
		x.Reply = x.record[headroom:]
		x.done <- nil
	}
}

func (c *streamConn) start(ctx context.Context, x *Exchange) error {
	x.heard = c.heard.Load()
	if err := x.claim(ctx, c.writing, nil); err != nil {
		return err
	}
	if err := c.calls.add(x); err != nil {
		<-c.writing
		return unsent(err)
	}
	err := c.write(ctx, x)
	<-c.writing
	if err != nil && !c.calls.remove(x) {
		<-x.done // it gets the same error as the others
	}
	return err
}

func (c *streamConn) finish(ctx context.Context, x *Exchange) error {
	done, err := x.await(ctx, x.left())
	if done {
		return err
	}
	err = c.calls.outcome(x, err)
	if err == ErrTimeout && c.heard.Load() == x.heard {
		c.fail(errors.New("the server was silent for the whole time of a call"))
	}
	return err
}

// write writes the calls that were held back, and then this call. If a record was started and not
// finished, the connection is unusable.
func (c *streamConn) write(ctx context.Context, x *Exchange) error {
	if err := c.flush(ctx, x); err != nil {
		return err
	}
	c.out.begin(ctx, x.Deadline)
	return c.written(writeRecord(&c.out, x.room, c.limit))
}

// flush writes the calls that were held back.
func (c *streamConn) flush(ctx context.Context, x *Exchange) error {
	if len(c.batch) == 0 {
		return nil
	}
	c.out.begin(ctx, x.Deadline)
	_, err := c.out.Write(c.batch)
	if err = c.written(err); err == nil || c.out.bytes > 0 {
		c.batch = c.batch[:0]
	}
	return err
}

// written handles the error of a write.
func (c *streamConn) written(err error) error {
	switch {
	case err == nil:
		return nil
	case !c.out.gaveUp:
		c.fail(err)
		return &TransportError{Addr: c.addr, Sent: c.out.bytes > 0, Err: err}
	case c.out.bytes > 0:
		c.fail(errGivenUp)
	}
	return err
}

// errGivenUp ends a connection after a partial record.
var errGivenUp = errors.New("a call was cancelled while it was being sent")

// keepBack holds a call back until another one is written, or there are many.
func (c *streamConn) keepBack(ctx context.Context, x *Exchange) error {
	if err := x.claim(ctx, c.writing, nil); err != nil {
		return err
	}
	defer func() { <-c.writing }()
	if !c.alive() {
		return &TransportError{Addr: c.addr, Err: net.ErrClosed}
	}
	if len(c.batch) > 0 && len(c.batch)+len(x.room) > batchMax {
		if err := c.flush(ctx, x); err != nil {
			return err
		}
	}
	if len(x.room) > batchMax {
		return c.write(ctx, x)
	}
	return writeRecord((*recordBuffer)(&c.batch), x.room, c.limit)
}

// recordBuffer is an io.Writer that appends to itself.
type recordBuffer []byte

func (b *recordBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// unsent returns the error of a call that found the connection already broken.
func unsent(err error) error {
	var e *TransportError
	if errors.As(err, &e) {
		return &TransportError{Addr: e.Addr, Err: e.Err}
	}
	return err
}

// slicedWriter writes to a connection for a call, until its deadline or the end of its context.
type slicedWriter struct {
	conn     net.Conn
	ctx      context.Context
	deadline time.Time
	bytes    int  // bytes written since begin
	gaveUp   bool // the call's time has passed; otherwise the connection is broken
}

func (w *slicedWriter) begin(ctx context.Context, deadline time.Time) {
	w.ctx, w.deadline, w.bytes, w.gaveUp = ctx, deadline, 0, false
}

func (w *slicedWriter) Write(p []byte) (n int, err error) {
	for {
		slice := time.Now().Add(writeSlice)
		if !w.deadline.IsZero() && w.deadline.Before(slice) {
			slice = w.deadline
		}
		w.conn.SetWriteDeadline(slice)
		m, err := w.conn.Write(p[n:])
		n += m
		w.bytes += m
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err = w.ctx.Err(); err == nil && !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
			err = ErrTimeout
		}
		if err != nil {
			w.gaveUp = true
			return n, err
		}
	}
}

// pending is the set of calls of one connection or socket that wait for their replies.
type pending struct {
	mu    sync.Mutex
	calls map[uint32]*Exchange
	err   error // why no more are accepted
}

func newPending() *pending { return &pending{calls: make(map[uint32]*Exchange)} }

// add registers x for its reply.
func (p *pending) add(x *Exchange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.calls[x.XID] = x
	return nil
}

// remove removes x. If it returns false, the result has arrived: it is in x.done.
func (p *pending) remove(x *Exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[x.XID] != x {
		return false
	}
	delete(p.calls, x.XID)
	return true
}

// removeID removes and returns the call with this transaction id, if there is one. The caller sets its
// Reply and sends nil to done.
func (p *pending) removeID(xid uint32) *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.calls[xid]
	delete(p.calls, xid)
	return x
}

// fail ends the wait of all calls, and of later ones if last is set.
func (p *pending) fail(err error, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last && p.err == nil {
		p.err = err
	}
	for xid, x := range p.calls {
		delete(p.calls, xid)
		x.done <- err
	}
}

// await waits until x is done, until ctx ends, or for d, after which it returns ErrTimeout; a
// negative d means no limit. It reports whether x is done: the error is then the call's, and final.
func (x *Exchange) await(ctx context.Context, d time.Duration) (done bool, err error) {
	var expired <-chan time.Time
	if d >= 0 {
		x.timer.Reset(d)
		defer x.timer.Stop()
		expired = x.timer.C
	}
	select {
	case err := <-x.done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-expired:
		return false, ErrTimeout
	}
}

// left returns how long x may wait; negative means no limit.
func (x *Exchange) left() time.Duration {
	if x.Deadline.IsZero() {
		return -1
	}
	return max(0, time.Until(x.Deadline))
}

// outcome returns the result of x after a wait that failed with err. A result that has arrived
// meanwhile takes precedence.
func (p *pending) outcome(x *Exchange, err error) error {
	if p.remove(x) {
		return err
	}
	return <-x.done
}

// errEnded means that a connection has ended before the token for writing was free.
var errEnded = errors.New("vrpc: the connection has ended")

// claim puts a token into writing, which has room for one writer. It waits as long as the exchange
// may, and fails with errEnded when ended is closed.
func (x *Exchange) claim(ctx context.Context, writing chan<- struct{}, ended <-chan struct{}) error {
	select {
	case writing <- struct{}{}:
		return nil
	default:
	}
	var expired <-chan time.Time
	if left := x.left(); left >= 0 {
		x.timer.Reset(left)
		defer x.timer.Stop()
		expired = x.timer.C
	}
	select {
	case writing <- struct{}{}:
		return nil
	case <-ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-expired:
		return ErrTimeout
	}
}

package vrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	// batchMax is how many bytes of batched calls are kept back.
	batchMax = 16 << 10
	// writeSlice is how long a write may block before its caller looks whether the call's
	// context has ended.
	writeSlice = 100 * time.Millisecond
)

// streamConn is one connection of a client.
type streamConn struct {
	conn  net.Conn
	addr  string
	limit int // octets of a fragment
	calls *pending
	stats *clientStats
	in    *recordReader
	heard atomic.Uint64 // counts what is read, to tell a slow server from a dead one

	writing chan struct{} // holds one token, for who writes
	batch   []byte        // whole records, kept back
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

// fail ends the connection and all its calls, which may have been carried out.
func (c *streamConn) fail(err error) {
	if err != ErrClosed {
		err = &TransportError{Addr: c.addr, Sent: true, Err: err}
	}
	c.calls.fail(err, true)
	c.conn.Close()
}

// read hands replies to the calls that wait for them, until the first error. It gives the
// memory of the reply to the call, and takes the call's for the next reply.
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
			return fmt.Errorf("%w: a record of %d octets that is no reply", ErrBadReply, len(rec)-headroom)
		}
		x := c.calls.take(xid)
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
		<-x.done // it has heard what the others have
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

// write writes what was kept back and the call. If a record was begun and not ended, the
// connection is of no use any more.
func (c *streamConn) write(ctx context.Context, x *Exchange) error {
	if err := c.flush(ctx, x); err != nil {
		return err
	}
	c.out.begin(ctx, x.Deadline)
	return c.written(writeRecord(&c.out, x.room, c.limit))
}

// flush writes what was kept back.
func (c *streamConn) flush(ctx context.Context, x *Exchange) error {
	if len(c.batch) == 0 {
		return nil
	}
	c.out.begin(ctx, x.Deadline)
	_, err := c.out.Write(c.batch)
	if err = c.written(err); err == nil || c.out.octets > 0 {
		c.batch = c.batch[:0]
	}
	return err
}

// written is what becomes of a write that returned err.
func (c *streamConn) written(err error) error {
	switch {
	case err == nil:
		return nil
	case !c.out.gaveUp:
		c.fail(err)
		return &TransportError{Addr: c.addr, Sent: c.out.octets > 0, Err: err}
	case c.out.octets > 0:
		c.fail(errGivenUp)
	}
	return err
}

// errGivenUp ends a connection on which half a record was sent.
var errGivenUp = errors.New("a call was given up while it was being sent")

// keepBack keeps a call until another one is written, or there are many.
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

// recordBuffer appends what is written to it.
type recordBuffer []byte

func (b *recordBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// unsent is the error for a call that met a connection that was broken already.
func unsent(err error) error {
	var e *TransportError
	if errors.As(err, &e) {
		return &TransportError{Addr: e.Addr, Err: e.Err}
	}
	return err
}

// slicedWriter writes to a connection for a call: until its deadline, or its context ends.
type slicedWriter struct {
	conn     net.Conn
	ctx      context.Context
	deadline time.Time
	octets   int  // written since begin
	gaveUp   bool // the call's time was over; else the connection is broken
}

func (w *slicedWriter) begin(ctx context.Context, deadline time.Time) {
	w.ctx, w.deadline, w.octets, w.gaveUp = ctx, deadline, 0, false
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
		w.octets += m
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

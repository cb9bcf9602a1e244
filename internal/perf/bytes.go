package perf

import (
	"context"
	"io"
	"net"
	"time"
)

// byteRead is the minimum size of the buffer for one read of a stream, in bytes.
const byteRead = 64 << 10

// byteConn is one end of a stream of bytes over TCP or package stream.
type byteConn struct {
	conn    net.Conn
	noDelay func(bool) error // switches off the delay of small writes; nil if the stream has none
	buf     []byte           // a message
	read    []byte           // buffer of Sink
	tx      cursor           // what Stream writes
}

func newByteConn(conn net.Conn, c Case) *byteConn {
	return &byteConn{conn: conn, buf: make([]byte, c.Size), read: make([]byte, max(c.Size, byteRead)), tx: newCursor(c.Size)}
}

func deadlineOf(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}

// PingPong is part of Conn.
func (t *byteConn) PingPong(ctx context.Context, rtt []int64) error {
	t.conn.SetDeadline(deadlineOf(ctx))
	base := time.Now()
	last := time.Duration(0)
	for i := range rtt {
		if _, err := t.conn.Write(t.buf); err != nil {
			return err
		}
		if _, err := io.ReadFull(t.conn, t.buf); err != nil {
			return err
		}
		now := time.Since(base)
		rtt[i] = int64(now - last)
		last = now
	}
	return nil
}

// Echo is part of Conn.
func (t *byteConn) Echo(ctx context.Context, n int) error {
	t.conn.SetDeadline(deadlineOf(ctx))
	for range n {
		if _, err := io.ReadFull(t.conn, t.buf); err != nil {
			return err
		}
		if _, err := t.conn.Write(t.buf); err != nil {
			return err
		}
	}
	return nil
}

// Stream implements Conn. One write carries one message. The peer returns a byte when it has read
// the last message.
func (t *byteConn) Stream(ctx context.Context, n int) (int, error) {
	t.conn.SetDeadline(deadlineOf(ctx))
	for range n {
		msg := t.tx.next(len(t.buf))
		if _, err := t.conn.Write(msg); err != nil {
			return 0, err
		}
		t.tx.advance(len(msg))
	}
	if t.noDelay != nil { // the rest must not wait for an acknowledgement, which the peer delays
		t.noDelay(true)
		defer t.noDelay(false)
	}
	_, err := io.ReadFull(t.conn, t.buf[:1])
	return n, err
}

// Sink is part of Conn.
func (t *byteConn) Sink(ctx context.Context, n int) error {
	t.conn.SetDeadline(deadlineOf(ctx))
	for left := n * len(t.buf); left > 0; {
		k, err := t.conn.Read(t.read[:min(len(t.read), left)])
		if err != nil {
			return err
		}
		left -= k
	}
	_, err := t.conn.Write(t.buf[:1])
	return err
}

// Counters implements Conn. It does not read the kernel's count of retransmissions.
func (t *byteConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (t *byteConn) Close() error { return t.conn.Close() }

package perf

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// tcpRead is the least that one read of a stream asks for, in bytes.
const tcpRead = 64 << 10

// tcpStack is a blocking net.Conn over the same interface.
type tcpStack struct{}

// Cases is part of Stack. A blocking net.Conn cannot spin.
func (tcpStack) Cases(_ *Plan, test string, mtu, size int) []Case {
	return []Case{{Stack: "tcp", Test: test, Wait: Block, MTU: mtu, Size: size}}
}

// tcpConn is one end of a TCP connection.
type tcpConn struct {
	conn   *net.TCPConn
	corked bool   // small writes wait for each other
	buf    []byte // a message
	read   []byte // what Sink reads into
	tx     cursor // what Stream writes
}

// Open is part of Stack. The server listens and names its port.
func (tcpStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	conn, err := openTCP(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("perf: tcp: %w", err)
	}
	corked := c.Test == Rate
	if err := conn.SetNoDelay(!corked); err != nil {
		conn.Close()
		return nil, fmt.Errorf("perf: tcp: %w", err)
	}
	return &tcpConn{
		conn: conn, corked: corked,
		buf:  make([]byte, c.Size),
		read: make([]byte, max(c.Size, tcpRead)),
		tx:   newCursor(c.Size),
	}, nil
}

func openTCP(ctx context.Context, h *Half) (*net.TCPConn, error) {
	if !h.IP.IsValid() {
		return nil, errNoIP
	}
	if !h.server {
		addr, err := h.Exchange("")
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return conn.(*net.TCPConn), nil
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(h.IP, 0)))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, err := h.Exchange(l.Addr().String()); err != nil {
		return nil, err
	}
	if t, ok := ctx.Deadline(); ok {
		l.SetDeadline(t)
	}
	return l.AcceptTCP()
}

// errNoIP is why TCP and UDP cannot be measured on an interface.
var errNoIP = fmt.Errorf("the interface has no IP address: give it one, or leave tcp and udp out of --stacks: %w", ErrPlan)

func deadlineOf(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}

// PingPong is part of Conn.
func (t *tcpConn) PingPong(ctx context.Context, rtt []int64) error {
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
func (t *tcpConn) Echo(ctx context.Context, n int) error {
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

// Stream is part of Conn. One write carries one message; the byte that comes
// back says that the last one has been read.
func (t *tcpConn) Stream(ctx context.Context, n int) (int, error) {
	t.conn.SetDeadline(deadlineOf(ctx))
	for range n {
		msg := t.tx.next(len(t.buf))
		if _, err := t.conn.Write(msg); err != nil {
			return 0, err
		}
		t.tx.advance(len(msg))
	}
	if t.corked { // the rest must not wait for an acknowledgement, which the peer delays
		t.conn.SetNoDelay(true)
		defer t.conn.SetNoDelay(false)
	}
	_, err := io.ReadFull(t.conn, t.buf[:1])
	return n, err
}

// Sink is part of Conn.
func (t *tcpConn) Sink(ctx context.Context, n int) error {
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

// Counters is part of Conn. What the kernel sends again is not read.
func (t *tcpConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (t *tcpConn) Close() error { return t.conn.Close() }

package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// A UDP stream has its own window: after every quarter of it the sink returns the number of
// received datagrams. Each datagram carries its number in its first bytes, so datagrams shorter
// than that are not measured.
const (
	udpHeader = 8
	udpMax    = 65507
	udpWindow = 64
	udpBuffer = 100 << 10 // maximum bytes in flight: half of a default socket buffer
)

// udpStack is a blocking net.UDPConn over the same interface.
type udpStack struct{}

// Cases is part of Stack. A blocking socket cannot spin.
func (udpStack) Cases(_ *Plan, test string, mtu, size int) []Case {
	if size < udpHeader || size > udpMax {
		return nil
	}
	return []Case{{Stack: "udp", Test: test, Wait: Block, MTU: mtu, Size: size}}
}

// udpConn is one end of a pair of connected UDP sockets.
type udpConn struct {
	conn   *net.UDPConn
	buf    []byte // a datagram
	tx     cursor
	window uint64
	sent   uint64 // number of datagrams sent in streams
	got    uint64 // received
	told   uint64 // acknowledged
}

// Open is part of Stack. Both halves bind first, exchange their ports, and then connect.
func (udpStack) Open(_ context.Context, h *Half, c Case) (Conn, error) {
	if !h.IP.IsValid() {
		return nil, fmt.Errorf("perf: udp: %w", errNoIP)
	}
	local, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.IP, 0)))
	if err != nil {
		return nil, fmt.Errorf("perf: udp: %w", err)
	}
	self := local.LocalAddr().(*net.UDPAddr)
	text, err := h.Exchange(self.String())
	local.Close()
	if err != nil {
		return nil, err
	}
	peer, err := net.ResolveUDPAddr("udp", text)
	if err != nil {
		return nil, fmt.Errorf("perf: udp: %w", err)
	}
	conn, err := net.DialUDP("udp", self, peer)
	if err != nil {
		return nil, fmt.Errorf("perf: udp: %w", err)
	}
	return &udpConn{
		conn:   conn,
		buf:    make([]byte, c.Size),
		tx:     newCursor(c.Size),
		window: uint64(min(max(udpBuffer/c.Size, 1), udpWindow)),
	}, nil
}

// PingPong is part of Conn.
func (u *udpConn) PingPong(ctx context.Context, rtt []int64) error {
	u.conn.SetDeadline(deadlineOf(ctx))
	base := time.Now()
	last := time.Duration(0)
	for i := range rtt {
		if _, err := u.conn.Write(u.buf); err != nil {
			return err
		}
		if _, err := u.conn.Read(u.buf); err != nil {
			return err
		}
		now := time.Since(base)
		rtt[i] = int64(now - last)
		last = now
	}
	return nil
}

// Echo is part of Conn.
func (u *udpConn) Echo(ctx context.Context, n int) error {
	u.conn.SetDeadline(deadlineOf(ctx))
	for range n {
		if _, err := u.conn.Read(u.buf); err != nil {
			return err
		}
		if _, err := u.conn.Write(u.buf); err != nil {
			return err
		}
	}
	return nil
}

// Stream is part of Conn.
func (u *udpConn) Stream(ctx context.Context, n int) (int, error) {
	u.conn.SetDeadline(deadlineOf(ctx))
	acked := u.sent
	for end := u.sent + uint64(n); acked < end; {
		for u.sent < end && u.sent-acked < u.window {
			msg := u.tx.next(len(u.buf))
			binary.BigEndian.PutUint64(msg, u.sent)
			if _, err := u.conn.Write(msg); err != nil {
				return 0, err
			}
			u.tx.advance(len(msg))
			u.sent++
		}
		if _, err := u.conn.Read(u.buf); err != nil {
			return 0, err
		}
		acked = binary.BigEndian.Uint64(u.buf)
	}
	return n, nil
}

// Sink is part of Conn.
func (u *udpConn) Sink(ctx context.Context, n int) error {
	u.conn.SetDeadline(deadlineOf(ctx))
	for end := u.got + uint64(n); u.got < end; {
		if _, err := u.conn.Read(u.buf); err != nil {
			return err
		}
		if binary.BigEndian.Uint64(u.buf) != u.got {
			return errLost
		}
		u.got++
		if u.got == end || u.got-u.told >= max(u.window/4, 1) {
			u.told = u.got
			binary.BigEndian.PutUint64(u.buf, u.got)
			if _, err := u.conn.Write(u.buf[:udpHeader]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Counters is part of Conn. The kernel's own counters are not read: a lost
// datagram ends the sample.
func (u *udpConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (u *udpConn) Close() error { return u.conn.Close() }

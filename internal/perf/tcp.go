package perf

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// tcpStack is a blocking net.Conn over the same interface.
type tcpStack struct{}

// Cases is part of Stack. A blocking net.Conn cannot spin.
func (tcpStack) Cases(_ *Plan, test string, mtu, size int) []Case {
	return []Case{{Stack: "tcp", Test: test, Wait: Block, MTU: mtu, Size: size}}
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
	t := newByteConn(conn, c)
	if corked {
		t.noDelay = conn.SetNoDelay
	}
	return t, nil
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
var errNoIP = fmt.Errorf("interface without IP address (add one, or leave tcp and udp out of --stacks): %w", ErrPlan)

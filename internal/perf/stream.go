package perf

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// streamStack is a net.Conn of package stream.
type streamStack struct{}

// Cases is part of Stack.
func (streamStack) Cases(p *Plan, test string, mtu, size int) []Case {
	var cases []Case
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			cases = append(cases, Case{Stack: "stream", Test: test, Wait: wait, Link: link, MTU: mtu, Size: size})
		}
	}
	return cases
}

// streamConn is one end of a stream, on its own NIC.
type streamConn struct {
	*byteConn
	nic    *vipl.NIC
	host   *stream.Host
	forget func() // ends watching
}

// Open is part of Stack. The server listens and names its address.
func (streamStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	nic, err := h.openNIC(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &streamConn{nic: nic, forget: h.watch(Opened{NIC: nic})}
	if s.host, err = stream.Open(ctx, &stream.Config{NIC: nic}); err == nil {
		err = s.connect(ctx, h, c)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("perf: stream: %w", err)
	}
	return s, nil
}

func (s *streamConn) connect(ctx context.Context, h *Half, c Case) error {
	if !h.server {
		address, err := h.Exchange("")
		if err != nil {
			return err
		}
		conn, err := (&stream.Dialer{Host: s.host}).Dial(ctx, address)
		if err != nil {
			return err
		}
		s.byteConn = newByteConn(conn, c)
		return nil
	}
	l, err := (&stream.ListenConfig{Host: s.host}).Listen(ctx, "")
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := h.Exchange(l.Addr().String()); err != nil {
		return err
	}
	l.SetDeadline(deadlineOf(ctx))
	conn, err := l.AcceptStream()
	if err != nil {
		return err
	}
	s.byteConn = newByteConn(conn, c)
	return nil
}

// Counters is part of Conn.
func (s *streamConn) Counters() Counters { return nicCounters(s.nic) }

// Close is part of Conn.
func (s *streamConn) Close() error {
	s.forget()
	if s.host != nil {
		s.host.Close()
	}
	return s.nic.Close()
}

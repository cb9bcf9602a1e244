package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

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

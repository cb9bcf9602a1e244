package stream_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// patience is how long a test waits for what must happen: it only guards against hangs.
const patience = 60 * time.Second

var background = context.Background()

// within returns a context that ends when the test hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(background, patience)
	t.Cleanup(cancel)
	return ctx
}

// open returns a host on a NIC of its own, of this machine's shared memory.
func open(t testing.TB, cfg stream.Config) *stream.Host {
	t.Helper()
	if cfg.NIC == nil {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		cfg.NIC = nic
	}
	h, err := stream.Open(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func listen(t testing.TB, h *stream.Host, address string) *stream.Listener {
	t.Helper()
	l, err := (&stream.ListenConfig{Host: h}).Listen(background, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// connect makes a stream between two hosts.
func connect(ctx context.Context, from *stream.Host, l *stream.Listener) (asks, takes *stream.Conn, err error) {
	asks, err = (&stream.Dialer{Host: from}).Dial(ctx, l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	if takes, err = l.AcceptStream(); err != nil {
		asks.Close()
		return nil, nil, err
	}
	return asks, takes, nil
}

// pair returns the ends of a stream between two hosts of the given configuration.
func pair(t testing.TB, cfg stream.Config) (a, b *stream.Conn) {
	t.Helper()
	l := listen(t, open(t, cfg), "")
	a, b, err := connect(within(t), open(t, cfg), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(time.Now().Add(patience))
	}
	return a, b
}

package test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestOpenCancelled: with a context that has ended, no Open opens anything, and its error wraps the
// context's. A nil configuration is as good as any.
func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, open := range map[string]func() (io.Closer, error){
		"transport/packet": func() (io.Closer, error) { return packet.Open(ctx, nil) },
		"transport/ring":   func() (io.Closer, error) { return ring.Open(ctx, nil) },
		"transport/udp":    func() (io.Closer, error) { return udp.Open(ctx, nil) },
		"vipl":             func() (io.Closer, error) { return vipl.Open(ctx, nil) },
	} {
		opened, err := open()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the error is %v, want one that wraps %v", name, err, context.Canceled)
		}
		if err == nil {
			opened.Close()
		}
	}
}

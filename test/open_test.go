package test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	amcard "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestOpenCancelled: with a context that has ended, no Open opens anything, and its error wraps the
// context's. A nil configuration is as good as any.
func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, open := range map[string]func() (io.Closer, error){
		"endpoint":         func() (io.Closer, error) { return endpoint.Open(ctx, nil) },
		"endpoint/lanai":   func() (io.Closer, error) { return amcard.Open(ctx, nil) },
		"job":              func() (io.Closer, error) { return job.Open(ctx, nil, job.Program{Name: "test"}) },
		"mplite":           func() (io.Closer, error) { return mplite.Open(ctx, nil) },
		"splitc":           func() (io.Closer, error) { return splitc.Open(ctx, nil) },
		"stream":           func() (io.Closer, error) { return stream.Open(ctx, nil) },
		"stream.Listen":    func() (io.Closer, error) { return stream.Listen(ctx, "") },
		"stream/tun":       func() (io.Closer, error) { return tun.Open(ctx, nil) },
		"transport/packet": func() (io.Closer, error) { return packet.Open(ctx, nil) },
		"transport/ring":   func() (io.Closer, error) { return ring.Open(ctx, nil) },
		"transport/udp":    func() (io.Closer, error) { return udp.Open(ctx, nil) },
		"vipl":             func() (io.Closer, error) { return vipl.Open(ctx, nil) },
		"vmmc":             func() (io.Closer, error) { return vmmc.Open(ctx, nil) },
		"vmmc/daemon":      func() (io.Closer, error) { return daemon.Open(ctx, nil) },
		"vmmc/lanai":       func() (io.Closer, error) { return vmmccard.Open(ctx, nil) },
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

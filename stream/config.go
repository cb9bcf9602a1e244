package stream

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// Defaults of Config and ListenConfig.
const (
	defaultReadBuffer  = 540 << 10 // nine of the longest messages
	defaultWriteBuffer = 256 << 10
	defaultLinger      = 5 * time.Second
	defaultBacklog     = 128
)

// Limits of Config's buffers, in bytes.
const (
	MinBuffer = flow.MinRing
	MaxBuffer = flow.MaxRing
)

// maxName is the longest name of a service, in bytes.
const maxName = vipl.MaxName

// Config says how streams go. Nil, and every zero field, mean the default.
type Config struct {
	// NIC is used instead of opening Interface. It stays the caller's.
	NIC *vipl.NIC
	// Interface is the network interface, by name or MAC address; empty means what
	// vipl.EnvInterface says, or else the only candidate.
	Interface string
	// ReadBuffer is how many bytes the other end of a stream may send before the program reads them:
	// MinBuffer to MaxBuffer; 0 means 540 KiB. Each stream allocates that much.
	ReadBuffer int
	// WriteBuffer is how many bytes Write may leave behind that are still to be sent or
	// acknowledged: MinBuffer to MaxBuffer; 0 means 256 KiB. What is longer goes from where it lies.
	WriteBuffer int
	// PeerTimeout bounds how long a silent peer is believed to be alive; 0 means
	// vipl.DefaultPeerTimeout. A peer on this host is not given up while its process lives.
	PeerTimeout time.Duration
	// Linger is how long Close waits until the written data have arrived; 0 means 5 s.
	Linger time.Duration
	// Logger is handed to the NIC that is opened; nil means slog.Default().
	Logger *slog.Logger
}

func (c *Config) withDefaults() (Config, error) {
	var d Config
	if c != nil {
		d = *c
	}
	d.ReadBuffer = cmp.Or(d.ReadBuffer, defaultReadBuffer)
	d.WriteBuffer = cmp.Or(d.WriteBuffer, defaultWriteBuffer)
	d.Linger = cmp.Or(d.Linger, defaultLinger)
	d.PeerTimeout = cmp.Or(d.PeerTimeout, vipl.DefaultPeerTimeout)
	for _, size := range []int{d.ReadBuffer, d.WriteBuffer} {
		if size < MinBuffer || size > MaxBuffer {
			return d, fmt.Errorf("stream: %w: a buffer of %d bytes, want %d..%d", vipl.ErrArgument, size, MinBuffer, MaxBuffer)
		}
	}
	if d.Linger < 0 || d.PeerTimeout < 0 {
		return d, fmt.Errorf("stream: %w: Linger %v, PeerTimeout %v: neither may be negative", vipl.ErrArgument, d.Linger, d.PeerTimeout)
	}
	return d, nil
}

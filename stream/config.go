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
	minBuffer = flow.MinRing
	maxBuffer = flow.MaxRing
)

// maxName is the longest name of a service, in bytes.
const maxName = vipl.MaxName

// Config describes the NIC and the buffers of streams. Nil and zero fields mean the
// defaults.
type Config struct {
	// NIC is used instead of opening Interface. The caller keeps ownership.
	NIC *vipl.NIC
	// Interface is the network interface, by name or MAC address; empty means the value of
	// vipl.EnvInterface, or else the only usable interface.
	Interface string
	// ReadBuffer is how many received bytes a stream buffers until the program reads them: 4 KiB to
	// 2 MiB; 0 means 540 KiB. Each stream allocates that much.
	ReadBuffer int
	// WriteBuffer is how many bytes Write may buffer until they are acknowledged: 4 KiB to 2 MiB; 0
	// means 256 KiB. Longer writes, and all writes above 128 KiB, are sent without a copy.
	WriteBuffer int
	// PeerTimeout is how long a peer may be silent before it counts as dead; 0 means
	// vipl.DefaultPeerTimeout. A peer on this host counts as alive while its process lives.
	PeerTimeout time.Duration
	// Linger is how long Close waits until the peer has received the written data; 0 means
	// 5 s.
	Linger time.Duration
	// Logger is the logger of the NIC that Open opens; nil means slog.Default().
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
		if size < minBuffer || size > maxBuffer {
			return d, fmt.Errorf("stream: %w: buffer of %d bytes (want %d..%d)", vipl.ErrArgument, size, minBuffer, maxBuffer)
		}
	}
	if d.Linger < 0 || d.PeerTimeout < 0 {
		return d, fmt.Errorf("stream: %w: Linger %v, PeerTimeout %v: must not be negative", vipl.ErrArgument, d.Linger, d.PeerTimeout)
	}
	return d, nil
}

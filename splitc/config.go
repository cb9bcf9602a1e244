package splitc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
)

// Environment variables that Start reads for zero fields of Config, in addition to those of package
// job.
const (
	EnvLayer = "BOBNET_SPLITC_LAYER" // name of the communication layer
	EnvHeap  = "BOBNET_SPLITC_HEAP"  // bytes of a heap, optionally with suffix k, m or g
)

// Defaults of Config, and its limits.
const (
	defaultLayer       = "shm"
	defaultHeapSize    = 256 << 20
	minHeapSize        = 128 << 10
	maxHeapSize        = 1 << 36
	defaultWaitTimeout = 10 * time.Minute
)

// Config configures a process of a Split-C program. A zero field takes its value from the
// environment variable for it, if there is one, and otherwise means its default. Nil leaves all
// fields zero.
type Config struct {
	// Config selects the rank, the job and the NIC of the process. Its Timeout bounds Start, in
	// addition to the context. It also bounds the end of the job in Exit after all processes have
	// called Exit. Until then Exit waits like all other calls, bounded by its context and
	// WaitTimeout. A process that computes still answers its peers, and so does not exceed their
	// PeerTimeout.
	job.Config
	// Member, if not nil, is the process's membership in the job, which several packages can share
	// (job.Open). Job, Rank, Size, Interface and NIC then come from the member and must be zero.
	// The caller keeps ownership and closes the member after Exit.
	Member *job.Member
	// Layer is the name of the communication layer, one of Layers; empty means the value of
	// EnvLayer, or else "shm". It must be the same in all processes.
	Layer string
	// Card carries the active messages of the layers am and shm instead of the NIC: an
	// emulated LANai card that holds the endpoints (package endpoint/lanai). All processes
	// must have one, or none. The NIC still carries the job's own messages. The caller
	// closes the card.
	Card *lanai.Card
	// HeapSize is the length of each process's spread heap in bytes of virtual memory, 128 KiB to 64 GiB.
	// Pages occupy memory when they are used. It is rounded up to whole pages of 4096 bytes, and must be
	// the same in all processes. 0 means the value of EnvHeap, or else 256 MiB.
	HeapSize int
	// WaitTimeout bounds each wait, in addition to its context: a wait for data that never
	// arrives ends with ErrWaited. 0 means 10 minutes.
	WaitTimeout time.Duration
}

// Layers returns the names of the communication layers.
func Layers() []string { return slices.Sorted(maps.Keys(layers)) }

// complete returns c with the values of the environment or of the member, and with the defaults,
// validated.
func (c Config) complete() (Config, error) {
	if m := c.Member; m != nil {
		if c.Job != "" || c.Rank != 0 || c.Size != 0 || c.Interface != "" || c.NIC != nil {
			return c, opError("start", ErrArgument, "Job, Rank, Size, Interface and NIC come from Member and must be zero")
		}
		id := m.Identity()
		c.Job, c.Rank, c.Size, c.NIC = id.Job, id.Rank, id.Size, m.NIC()
	}
	err := joining.Complete(&c.Config)
	switch {
	case errors.Is(err, transport.ErrArgument): // its text states already that a value is invalid
		return c, fmt.Errorf("splitc: start: %w", errclass.With(ErrArgument, errclass.Within("vipl: ", err)))
	case err != nil:
		return c, fmt.Errorf("%w: start: %w", ErrArgument, err)
	}
	c.Logger = logqueue.New(c.Logger).Logger()
	if c.Layer == "" {
		c.Layer = os.Getenv(EnvLayer)
	}
	if c.Layer == "" {
		c.Layer = defaultLayer
	}
	if c.HeapSize == 0 {
		if c.HeapSize, err = heapSize(os.Getenv(EnvHeap)); err != nil {
			return c, err
		}
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = defaultWaitTimeout
	}
	return c, c.check()
}

// check returns an error if c is invalid, and rounds the size of the heap.
func (c *Config) check() error {
	switch {
	case layers[c.Layer] == nil:
		return opError("start", ErrArgument, "unknown layer %q (want one of %s)", c.Layer, strings.Join(Layers(), ", "))
	case c.Card != nil && c.Layer != "am" && c.Layer != "shm":
		return opError("start", ErrArgument, "Card supports only the layers am and shm, not %s", c.Layer)
	case c.HeapSize < minHeapSize || c.HeapSize > maxHeapSize:
		return opError("start", ErrArgument, "a heap of %d bytes is not in %d..%d", c.HeapSize, minHeapSize, maxHeapSize)
	case c.WaitTimeout < 0:
		return opError("start", ErrArgument, "WaitTimeout %v is negative", c.WaitTimeout)
	}
	c.HeapSize = (c.HeapSize + 4095) / 4096 * 4096
	return nil
}

// heapSize parses the size of a heap; "" means the default.
func heapSize(text string) (int, error) {
	if text == "" {
		return defaultHeapSize, nil
	}
	number, shift := text, 0
	for i, unit := range "kmg" {
		if rest, ok := strings.CutSuffix(strings.ToLower(text), string(unit)); ok {
			number, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxHeapSize>>shift {
		return 0, opError("start", ErrArgument, "environment variable %s is %q (want a number of bytes, optionally with suffix k, m or g, up to %d)", EnvHeap, text, maxHeapSize)
	}
	return n << shift, nil
}

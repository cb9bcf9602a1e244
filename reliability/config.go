package reliability

import (
	"errors"
	"fmt"
)

// MaxWindow is the largest Config.Window. It is also the number of frames after the next expected
// one that every Receiver accepts, whatever its own Config.
const MaxWindow = 1024

// errConfig is wrapped by every error that Config.Validate returns.
var errConfig = errors.New("reliability: configuration is out of range")

// Config sets the limits and delays of a connection. A nil *Config and zero fields mean the
// defaults. Senders and Receivers keep the pointer: a Config in use must not change. Any number of
// connections and goroutines may share it.
type Config struct {
	// Window is the maximum number of frames in flight; default 256, at most MaxWindow. Each occupies 40 bytes
	// of the Sender, allocated when it is first needed.
	Window int

	// InitialWindow is the congestion window, in frames, at the start; default 10. A larger window
	// speeds up short bursts on an empty network, and increases loss on a full one.
	InitialWindow int

	// AckDelay is how long, in nanoseconds, a Receiver waits for a frame that can carry its
	// acknowledgement; default 50 µs. The Sender assumes the same delay at the peer. A longer delay
	// saves bare acknowledgements, and delays the completion of sends. While the peer's frames are
	// answered within 250 µs or five times AckDelay, a Receiver waits that long.
	AckDelay int64

	// AckEvery is the number of frames after which a Receiver acknowledges without waiting; default
	// 16. A smaller number costs more bare acknowledgements.
	AckEvery int

	// MinRTO and MaxRTO bound the retransmission timeout and its back-off, in nanoseconds; defaults
	// 10 ms and 1 s. If a host may not schedule a process for longer than MinRTO, this causes
	// needless retransmissions, one frame each.
	MinRTO, MaxRTO int64

	// MaxTries is how many consecutive retransmission timeouts without any frame from the peer end
	// the connection; default 16, which takes 10 to 13 s with the other defaults. If frames arrive
	// but acknowledge nothing, four times as many end it. Sender.SetUserTimeout can postpone the
	// end.
	MaxTries int
}

var defaults = Config{
	Window:        256,
	InitialWindow: 10,
	AckDelay:      50_000,
	AckEvery:      16,
	MinRTO:        10_000_000,
	MaxRTO:        1_000_000_000,
	MaxTries:      16,
}

// Resolve returns a Config with all defaults filled in. It returns c itself if none is missing, so
// that many connections share one. c may be nil.
func (c *Config) Resolve() *Config {
	if c == nil {
		return &defaults
	}
	r := *c
	fill(&r.Window, defaults.Window)
	fill(&r.InitialWindow, min(defaults.InitialWindow, r.Window))
	fill(&r.AckDelay, defaults.AckDelay)
	fill(&r.AckEvery, defaults.AckEvery)
	fill(&r.MinRTO, defaults.MinRTO)
	fill(&r.MaxRTO, max(defaults.MaxRTO, r.MinRTO))
	fill(&r.MaxTries, defaults.MaxTries)
	if r == *c {
		return c
	}
	return &r
}

func fill[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Limits on times, in nanoseconds: with them no sum of times overflows.
const (
	maxDelay = 1_000_000_000     // AckDelay
	maxRTO   = 3_600_000_000_000 // MaxRTO
	minRTO   = 100_000           // MinRTO
)

// Validate returns an error that names the invalid field if c, with its defaults, is not usable. c
// may be nil.
func (c *Config) Validate() error {
	r := c.Resolve()
	for _, f := range []struct {
		name          string
		value, lo, hi int64
	}{
		{"Window", int64(r.Window), 1, MaxWindow},
		{"InitialWindow", int64(r.InitialWindow), 1, int64(r.Window)},
		{"AckDelay", r.AckDelay, 1, maxDelay},
		{"AckEvery", int64(r.AckEvery), 1, MaxWindow},
		{"MinRTO", r.MinRTO, minRTO, r.MaxRTO},
		{"MaxRTO", r.MaxRTO, minRTO, maxRTO},
		{"MaxTries", int64(r.MaxTries), 1, 1000},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%w: %s is %d: want %d to %d, or 0 for the default",
				errConfig, f.name, f.value, f.lo, f.hi)
		}
	}
	return nil
}

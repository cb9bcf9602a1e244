package reliability

import (
	"errors"
	"fmt"
)

// MaxWindow is the largest Config.Window, and how many frames beyond the next
// expected one every Receiver takes, whatever its own Config says.
const MaxWindow = 1024

// errConfig is wrapped by every error that Config.Validate returns.
var errConfig = errors.New("reliability: configuration is out of range")

// Config sets the limits and delays of a connection. A nil *Config and every
// zero field mean the default. Senders and Receivers keep the pointer: a
// Config that is in use must not change, and may be shared by any number of
// machines and goroutines.
type Config struct {
	// Window is the most frames in flight; default 256, at most MaxWindow.
	// Each costs 40 bytes of the Sender, from the first time it is needed.
	Window int

	// InitialWindow is the congestion window, in frames, at the start;
	// default 10. More helps short bursts on an empty network and hurts all
	// on a full one.
	InitialWindow int

	// AckDelay is how long, in nanoseconds, a Receiver waits for a frame that
	// can carry its acknowledgement; default 50 µs. The Sender takes the
	// peer's to be its own. Longer saves bare acknowledgements and delays the
	// completion of sends. While frames are answered within 250 µs, and five times
	// AckDelay, it waits so long.
	AckDelay int64

	// AckEvery is after how many frames a Receiver acknowledges without
	// waiting; default 16. Fewer cost more bare acknowledgements.
	AckEvery int

	// MinRTO and MaxRTO bound the retransmission time-out and its back-off,
	// in nanoseconds; defaults 10 ms and 1 s. A MinRTO below the time for
	// which a host may leave a process without a processor costs needless
	// retransmissions, one frame each.
	MinRTO, MaxRTO int64

	// MaxTries is how many retransmission time-outs in a row without any word
	// from the peer end the connection; default 16, which with the other
	// defaults takes 10 to 13 s. Four times as many end it when the peer is
	// heard but acknowledges nothing. Sender.SetUserTimeout may put that off.
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

// Resolve returns a Config with every default filled in: c itself when none is
// missing, so that the machines of many connections share one. c may be nil.
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

// Validate returns an error that names the field when c,
// with its defaults, is not usable. c may be nil.
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

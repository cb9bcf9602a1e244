package fault

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// errSpec is wrapped by every error of Parse and ParseRate.
var errSpec = errors.New("not a fault")

// Parse parses the output of String: names with values, separated by commas.
//
//	loss=2%,dup=0.01,reorder=1%,corrupt=0.1%,delay=100us,jitter=20us,seed=7
//
// Rates are fractions or percentages, see ParseRate; times are Go durations. Omitted faults do not
// occur, and the empty text is the zero Options.
func Parse(text string) (Options, error) {
	var o Options
	for field := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		if err := o.set(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return Options{}, err
		}
	}
	return o, nil
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "loss":
		o.Drop, err = ParseRate(value)
	case "dup":
		o.Dup, err = ParseRate(value)
	case "reorder":
		o.Reorder, err = ParseRate(value)
	case "corrupt":
		o.Corrupt, err = ParseRate(value)
	case "delay":
		o.Delay, err = parseTime(value)
	case "jitter":
		o.Jitter, err = parseTime(value)
	case "seed":
		if o.Seed, err = strconv.ParseUint(value, 0, 64); err != nil {
			err = fmt.Errorf("fault: seed %q: %w: want a number from 0 to 2^64-1", value, errSpec)
		}
	default:
		err = fmt.Errorf("fault: %q: %w: want loss, dup, reorder, corrupt, delay, jitter or seed", name, errSpec)
	}
	return err
}

// ParseRate parses a probability: "2%" and "0.02" are the same.
func ParseRate(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	p, err := strconv.ParseFloat(number, 64)
	if percent {
		p /= 100
	}
	if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
		return 0, fmt.Errorf("fault: rate %q: %w: want 0%% to 100%%, or 0 to 1", text, errSpec)
	}
	return p, nil
}

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("fault: time %q: %w: want a duration such as 100us or 2ms", text, errSpec)
	}
	return d, nil
}

// String returns the form that Parse accepts. It omits direction, script and everything else that
// Parse does not set.
func (o Options) String() string {
	var b strings.Builder
	put := func(name, value string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + "=" + value)
	}
	for _, r := range []struct {
		name string
		rate float64
	}{{"loss", o.Drop}, {"dup", o.Dup}, {"reorder", o.Reorder}, {"corrupt", o.Corrupt}} {
		if r.rate > 0 {
			put(r.name, strconv.FormatFloat(r.rate, 'g', -1, 64))
		}
	}
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"delay", o.Delay}, {"jitter", o.Jitter}} {
		if t.time > 0 {
			put(t.name, strings.Replace(t.time.String(), "µ", "u", 1)) // ASCII, as it was typed
		}
	}
	if o.Seed != 0 {
		put("seed", strconv.FormatUint(o.Seed, 10))
	}
	return b.String()
}

// Active reports whether any fault is enabled.
func (o Options) Active() bool {
	return o.Drop > 0 || o.Dup > 0 || o.Reorder > 0 || o.Corrupt > 0 || o.Delay > 0 || o.Jitter > 0 || o.Script != nil
}

// For returns o for one of several links that share a specification. It mixes the link's address
// into the seed, so that the links have faults at different frames.
func (o Options) For(addr ethertype.Addr) Options {
	const prime = 0x100000001b3 // of FNV-1a
	for _, v := range append(addr.MAC[:], byte(addr.Port>>8), byte(addr.Port)) {
		o.Seed = (o.Seed ^ uint64(v)) * prime
	}
	return o
}

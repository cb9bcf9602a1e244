package mapper

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Card is what routes are written to: the table of a card.
type Card interface {
	// SetRoutes replaces all routes of the card. There are none for hosts that are not
	// named. The entries are in the order of their hosts, at most MaxHosts, and the
	// callee's to read as long as it likes; Check has taken each route.
	SetRoutes(routes []Entry)
}

// Options describes an Agent.
type Options struct {
	ID   ethertype.MAC // identity of the host's card; two hosts must not have the same
	Name string        // of the host, for people: up to 32 octets
	Seed uint64        // of everything random: take another one for each host, and each time
	Card Card          // gets the routes; nil for nowhere
	Log  *slog.Logger  // nil for none; it is called with the lock of whoever drives the Agent held, so its handler must neither block nor call that

	Ports       int           // most ports of a switch, 2..myrinet.MaxPorts; 0 means 8
	Period      time.Duration // from the end of a mapping to the beginning of the next; 0 means 1 s
	Timeout     time.Duration // least time that an answer may take; 0 means 50 us, which is for virtual time
	Tries       int           // how often a probe is sent that nothing comes back for; 0 means 3
	Window      int           // most hosts' orders under way; 0 means 16
	Probes      int           // most probes under way; 0 means 1. More is for fabrics whose inputs hold several whole probes, as live ones do
	MaxSwitches int           // most switches of a map; 0 means 256

	// Observe has the host map for itself: it asks the others who they are, and is never
	// followed. Besides it follows a leader as all do, and never becomes one.
	Observe bool
}

func (o Options) withDefaults() (Options, error) {
	for _, d := range []struct {
		what         string
		v            *int
		def, lo, top int
	}{
		{"Ports", &o.Ports, 8, 2, myrinet.MaxPorts},
		{"Tries", &o.Tries, 3, 1, 16},
		{"Window", &o.Window, 16, 1, 1024},
		{"Probes", &o.Probes, 1, 1, 16},
		{"MaxSwitches", &o.MaxSwitches, 256, 1, 4096},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < d.lo || *d.v > d.top {
			return o, fmt.Errorf("mapper: option %s is %d, it can be %d to %d", d.what, *d.v, d.lo, d.top)
		}
	}
	for _, d := range []struct {
		what string
		v    *time.Duration
		def  time.Duration
	}{
		{"Period", &o.Period, time.Second},
		{"Timeout", &o.Timeout, 50 * time.Microsecond},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < time.Microsecond || *d.v > time.Hour {
			return o, fmt.Errorf("mapper: option %s is %v, it can be 1us to 1h", d.what, *d.v)
		}
	}
	switch {
	case o.ID == ethertype.MAC{}:
		return o, fmt.Errorf("mapper: option ID is %v: give each host an identity of its own", o.ID)
	case len(o.Name) > maxNameOctets:
		return o, fmt.Errorf("mapper: option Name has %d octets, it can have %d", len(o.Name), maxNameOctets)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

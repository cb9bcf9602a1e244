package mapper

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// RouteTable is the route table of a card.
type RouteTable interface {
	// SetRoutes replaces all routes of the card. Hosts that are not in routes have none afterwards.
	// The routes are sorted by address. The callee may keep the slice.
	SetRoutes(routes []myrinet.HostRoute)
}

// withDefaults replaces zero options by their defaults, and checks the options.
func withDefaults(o myrinet.MapperOptions) (myrinet.MapperOptions, error) {
	for _, d := range []struct {
		what         string
		v            *int
		def, lo, top int
	}{
		{"Ports", &o.Ports, 8, 2, crossbar.MaxPorts},
		{"Tries", &o.Tries, 3, 1, 16},
		{"Window", &o.Window, 16, 1, 1024},
		{"Probes", &o.Probes, 1, 1, 16},
		{"MaxSwitches", &o.MaxSwitches, 256, 1, 4096},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < d.lo || *d.v > d.top {
			return o, fmt.Errorf("mapper: option %s is %d: want %d to %d", d.what, *d.v, d.lo, d.top)
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
			return o, fmt.Errorf("mapper: option %s is %v: want 1us to 1h", d.what, *d.v)
		}
	}
	switch {
	case o.ID == ethertype.MAC{}:
		return o, fmt.Errorf("mapper: option ID is %v: give each host an identity of its own", o.ID)
	case len(o.Name) > maxNameLen:
		return o, fmt.Errorf("mapper: option Name has %d bytes, it can have %d", len(o.Name), maxNameLen)
	}
	o.Logger = logqueue.New(o.Logger).Logger()
	return o, nil
}

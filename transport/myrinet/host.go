package myrinet

import (
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// HostRoute is a route to a host's card.
type HostRoute struct {
	To    ethertype.MAC // ethertype.Broadcast: groups, and hosts without a route of their own
	Turns Route
}

// RouteTable is the table of routes of a card.
type RouteTable interface {
	// SetRoutes replaces all routes of the card. Hosts that routes does not name have none
	// afterwards. The routes are sorted by address. The callee may keep the slice.
	SetRoutes(routes []HostRoute)
}

// MapperOptions describes the mapper of a host: it finds the other hosts and computes routes.
type MapperOptions struct {
	ID     ethertype.MAC // identity of the host's card; no two hosts may have the same
	Name   string        // of the host, for people: at most 32 bytes
	Seed   uint64        // of everything random: choose another one for each host and each start
	Card   RouteTable    // receives the routes; nil for none
	Logger *slog.Logger  // nil means slog.Default(); the handler is called on a goroutine of the logger's own, and may block

	Ports       int           // most ports of a switch, 2..MaxPorts; 0 means 8
	Period      time.Duration // pause between the end of a mapping and the start of the next; 0 means 1 s
	Timeout     time.Duration // shortest time before a probe counts as lost; 0 means 50 us, which suits virtual time
	Tries       int           // how often a probe without an answer is sent; 0 means 3
	Window      int           // most hosts that receive new routes at the same time; 0 means 16
	Probes      int           // most probes under way; 0 means 1. Choose more for fabrics whose inputs hold several whole probes, as live ones do
	MaxSwitches int           // most switches of a map; 0 means 256

	// Observe makes the host map the fabric for itself. It asks the other hosts who they are and
	// follows a leader, but never becomes one.
	Observe bool
}

// Waiter blocks one process in virtual time; *sim.Waiter implements it.
type Waiter interface {
	Wait(until int64) error
	Wake()
}

// Virtual is virtual time for the host of a card: World's events drive the card, and each call
// of Waiter returns a place for one process to wait.
type Virtual struct {
	World  World
	Waiter func() Waiter
}

package myrinet

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Route is the turns that a packet takes, one at each switch: how many ports beyond the
// one by which it comes it leaves by, negative for before, 0 for back.
type Route []int8

// Check returns an error if no packet can take the route.
func (r Route) Check() error {
	if len(r) > framing.MaxHops {
		return fmt.Errorf("myrinet: no such route: it has %d turns, at most %d can stand in a packet", len(r), framing.MaxHops)
	}
	for i, t := range r {
		if t > framing.MaxTurn || t < -framing.MaxTurn {
			return fmt.Errorf("myrinet: no such route: turn %d is %d, it can be %d to %d", i, t, -framing.MaxTurn, framing.MaxTurn)
		}
	}
	return nil
}

// Back returns the route of an answer: the turns undone, last first.
func (r Route) Back() Route {
	back := make(Route, len(r))
	for i, t := range r {
		back[len(r)-1-i] = -t
	}
	return back
}

// HostRoute is a route to a host's card.
type HostRoute struct {
	To    ethertype.MAC // ethertype.Broadcast: groups, and hosts without a route of their own
	Turns Route
}

// MapperOptions describes the mapper of a host: it finds the other hosts and computes routes.
type MapperOptions struct {
	ID     ethertype.MAC // identity of the host's card; no two hosts may have the same
	Name   string        // of the host, for people: at most 32 bytes
	Seed   uint64        // of everything random: choose another one for each host and each start
	Logger *slog.Logger  // nil means slog.Default(); the handler is called on a goroutine of the logger's own, and may block

	Ports       int           // most ports of a switch, 2 to 32; 0 means 8
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

// CardConfig describes a card. The zero value is the papers' card, live: without a
// timing model.
type CardConfig struct {
	Name     string  // for people
	SRAM     int     // octets; 0 means 256 KiB
	PageSize int     // octets of a doorbell page; 0 means 4096
	Timing   *Timing // what things cost in virtual time; nil for nothing
}

// Timing is what the parts of a card, and the host's access to it, cost in virtual time.
// A card without one costs nothing, as a live one, whose time passes by itself. What the
// link costs is the fabric's (Options).
type Timing struct {
	Clock        int64         // of the card's processor, cycles per second
	DMASetup     time.Duration // from the start of a transfer between host and SRAM to its first octet
	DMABandwidth int64         // of the bus, octets per second
	DMAFetch     int64         // the same from the host to SRAM, where reads across the bus are slower; 0 means DMABandwidth
	PIORead      time.Duration // the host reads a word of 32 bits from the card; it waits for it
	PIOWrite     time.Duration // the host writes a word of 32 bits to the card
	Interrupt    time.Duration // from the card's interrupt to the host's handler
}

// PCITiming is the card of VMMC, 5.1 and 5.2: 33 MHz, PCI. 2 us are what it takes there
// to get the bus and begin a transfer. With it, transfers of 4 KB, a page, reach the
// 110 MB/s of figure 1, and those of 64 KB 115 of its 128 MB/s: no setup and bandwidth fit
// both, and pages are what the programs move. The papers give no time for an interrupt;
// 10 us is our figure for one on a processor of 166 MHz.
func PCITiming() *Timing {
	return &Timing{
		Clock: 33_000_000, DMASetup: 2 * time.Microsecond, DMABandwidth: 116_000_000,
		PIORead: 422 * time.Nanosecond, PIOWrite: 121 * time.Nanosecond, Interrupt: 10 * time.Microsecond,
	}
}

// SBusTiming is the card of VNT, 3.4: 37.5 MHz, SBus. The most that VNT, 5.2, sees cross
// that bus is 38 MB/s, of a layer that moves nothing else at the time; transfers of 8 KB
// reach it here. What VNT does not say is as with PCI.
func SBusTiming() *Timing {
	t := PCITiming()
	t.Clock, t.DMABandwidth = 37_500_000, 38_400_000
	return t
}

// LiveOptions describes one end of a live cable, or all ports of a live switch. The zero
// value is what the defaults say.
type LiveOptions struct {
	// Timeout is after how long a packet is broken that its card does not take. One that
	// stands still farther behind is given two to four times as long, so that the one that
	// holds it up is broken first. It is longer than a cable's of hardware, because whoever
	// is to take the packet is a process that may have to wait for a processor. Each end
	// adds up to a quarter, so that no two agree. 0 means 500 ms.
	Timeout time.Duration
	// Silence is after how long a neighbour that says nothing is taken for gone. Ends that
	// have nothing else to say greet each other ten times in that time. 0 means 2 s.
	Silence time.Duration
	// Gap is how long a frame is waited for that another one has overtaken. Then it is
	// lost, and with it the packet. 0 means 2 ms.
	Gap time.Duration
	// MaxPacket is the longest packet with route and CRC-8, octets; 0 means 65,536.
	MaxPacket int
	// Spin is how long a port of a switch polls after the last frame before it sleeps; 0
	// for not at all. It is of no use in virtual time.
	Spin time.Duration
	// Seed is that of the incarnations; 0 means that nobody can guess them.
	Seed uint64
}

package myrinet

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Route is the turns of a packet, one at each switch. A turn is the number of the outgoing port
// minus that of the incoming one; 0 returns to the incoming port.
type Route []int8

// Check returns an error if the route is invalid.
func (r Route) Check() error {
	if len(r) > framing.MaxHops {
		return fmt.Errorf("myrinet: invalid route: %d turns: a packet can hold at most %d", len(r), framing.MaxHops)
	}
	for i, t := range r {
		if t > framing.MaxTurn || t < -framing.MaxTurn {
			return fmt.Errorf("myrinet: invalid route: turn %d is %d: want %d to %d", i, t, -framing.MaxTurn, framing.MaxTurn)
		}
	}
	return nil
}

// Back returns the route of an answer: the inverse turns in reverse order.
func (r Route) Back() Route {
	back := make(Route, len(r))
	for i, t := range r {
		back[len(r)-1-i] = -t
	}
	return back
}

// HostRoute is a route to a host's card.
type HostRoute struct {
	To    ethertype.MAC // ethertype.Broadcast: groups, and hosts without a separate route
	Turns Route
}

// MapperOptions configure the mapper of a host, which finds the other hosts and computes routes.
type MapperOptions struct {
	ID     ethertype.MAC // identity of the host's card; unique among hosts
	Name   string        // name of the host for display: at most 32 bytes
	Seed   uint64        // seed of all random choices: use a different seed for each host and each start
	Logger *slog.Logger  // nil means slog.Default(); its handler is called on a separate goroutine, and may block

	Ports       int           // most ports of a switch, 2 to 32; 0 means 8
	Period      time.Duration // pause between the end of a mapping and the start of the next; 0 means 1 s
	Timeout     time.Duration // shortest time before a probe counts as lost; 0 means 50 us, which suits virtual time
	Tries       int           // how often a probe without an answer is sent; 0 means 3
	Window      int           // most hosts that receive new routes at the same time; 0 means 16
	Probes      int           // most probes in flight; 0 means 1. Choose more for fabrics whose inputs hold several whole probes, as live ones do
	MaxSwitches int           // most switches of a map; 0 means 256

	// Observe makes the host map the fabric only for itself. It asks the other hosts for their
	// identity and follows a leader, but never becomes one.
	Observe bool
}

// Waiter blocks one process in virtual time; *sim.Waiter implements it.
type Waiter interface {
	Wait(until int64) error
	Wake()
}

// Virtual is virtual time for the host of a card. World's events drive the card. Each call of
// Waiter returns a place for one process to wait at.
type Virtual struct {
	World  World
	Waiter func() Waiter
}

// CardConfig configures a card. The zero value is the papers' card, live: without a timing model.
type CardConfig struct {
	Name     string  // name for display
	SRAM     int     // bytes; 0 means 256 KiB
	PageSize int     // bytes of a doorbell page; 0 means 4096
	Timing   *Timing // costs in virtual time; nil means none
}

// Timing is the cost, in virtual time, of the parts of a card and of the host's access to it. A
// card without a Timing costs nothing, like a live card, whose time passes by itself. The fabric
// models the cost of links (Options).
type Timing struct {
	Clock        int64         // clock of the card's processor, cycles per second
	DMASetup     time.Duration // time from the start of a transfer between host and SRAM to its first byte
	DMABandwidth int64         // bandwidth of the bus, bytes per second
	DMAFetch     int64         // bandwidth of transfers from the host to SRAM if reads across the bus are slower; 0 means DMABandwidth
	PIORead      time.Duration // time for the host to read a 32-bit word from the card
	PIOWrite     time.Duration // time for the host to write a 32-bit word to the card
	Interrupt    time.Duration // time from the card's interrupt to the host's handler
}

// PCITiming returns the timing of VMMC's card, 5.1 and 5.2: 33 MHz, PCI. Acquiring the bus and
// starting a transfer takes 2 us. With this value, transfers of one 4 KB page reach the 110 MB/s of
// figure 1, and transfers of 64 KB reach 115 of its 128 MB/s. No combination of setup time and
// bandwidth fits both sizes, and the programs move pages. The papers give no interrupt latency: 10
// us is our estimate for a 166 MHz processor.
func PCITiming() *Timing {
	return &Timing{
		Clock: 33_000_000, DMASetup: 2 * time.Microsecond, DMABandwidth: 116_000_000,
		PIORead: 422 * time.Nanosecond, PIOWrite: 121 * time.Nanosecond, Interrupt: 10 * time.Microsecond,
	}
}

// SBusTiming returns the timing of VNT's card, 3.4: 37.5 MHz, SBus. In VNT, 5.2, the highest
// throughput over that bus is 38 MB/s, for a layer that moves nothing else at the time. With these
// values, transfers of 8 KB reach it. Values that VNT does not give are the values of PCITiming.
func SBusTiming() *Timing {
	t := PCITiming()
	t.Clock, t.DMABandwidth = 37_500_000, 38_400_000
	return t
}

// LiveOptions configure one end of a live cable, or all ports of a live switch. The zero value
// means the defaults.
type LiveOptions struct {
	// Timeout is the time after which a packet that its card does not accept is broken. A packet
	// further behind gets two to four times as long, so that the packet that blocks it is broken
	// first. It is longer than the hardware's, because the receiver is a process that may have to
	// wait for a processor. Each end adds up to a quarter of it, so that no two timeouts are equal.
	// 0 means 500 ms.
	Timeout time.Duration
	// Silence is the time after which a silent neighbour counts as gone. Idle ends send ten
	// keep-alives in that time. 0 means 2 s.
	Silence time.Duration
	// Gap is how long the receiver waits for a frame that another one has overtaken. After that, the
	// frame and its packet count as lost. 0 means 2 ms.
	Gap time.Duration
	// MaxPacket is the longest packet in bytes, including route and CRC-8; 0 means 65,536.
	MaxPacket int
	// Spin is how long a port of a switch polls after the last frame before it sleeps; 0 means that
	// it does not poll. Spin has no effect in virtual time.
	Spin time.Duration
	// Seed seeds the generator of incarnation numbers; 0 means that they are unpredictable.
	Seed uint64
}

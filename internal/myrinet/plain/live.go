package plain

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Overhead is the difference between the MTU of a live link's cable and the link's default MTU, so
// that a packet is one frame, whatever its route.
const Overhead = ethertype.HeaderSize - ethertype.EthernetSize + MaxHops + framing.FabricLeast + ethertype.EthernetSize

// longMTU is the MTU of a live link whose cable can carry long frames (transport.LongLink). The
// papers' SRAM has room for eight buffers of that size in addition to the table.
const longMTU = 30 << 10

// liveRing is the approximate size of a live link's receive ring in bytes. The link cycles through
// all slots, and a larger ring would not stay in a CPU cache.
const (
	liveRing   = 1 << 20
	leastSlots = 32
)

// OpenConfig configures Open.
type OpenConfig struct {
	Interface string // name or MAC of the network interface at the cable's end; "" for the only one that is up
	Config
	Cable myrinet.LiveOptions
}

// Open opens the card at a network interface, which is one end of a cable. The other end is another
// card, or a port of a switch (bobnet switch). The errors are those of ring.Open; one that wraps
// EADDRINUSE means that the interface already has a card or a switch. A nil cfg means the defaults.
func Open(ctx context.Context, cfg *OpenConfig) (transport.Link, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	return station.Open(ctx, cfg.Interface, true, func(cable transport.Link) (transport.Link, error) {
		return Join(cable, &cfg.Config, cfg.Cable)
	})
}

// LiveMapper returns mapper options for hosts that are processes, which may have to wait for a CPU
// before they answer. The inputs of a live fabric hold at least 16 frames, so 16 probes can be in
// flight: most go to ports without a cable, and only a timeout ends them.
func LiveMapper() *myrinet.MapperOptions {
	name := os.Getenv(EnvHost)
	if name == "" {
		name, _ = os.Hostname() // only for display
	}
	return &myrinet.MapperOptions{
		Name: name[:min(len(name), longestName)], Seed: rand.Uint64(), Period: 500 * time.Millisecond, Timeout: 2 * time.Millisecond, Probes: 16,
	}
}

// EnvHost is the environment variable with the name of this host on maps. The default is the host
// name, which the namespaces of one machine share.
const EnvHost = "BOBNET_HOST"

// longestName is the maximum length of a host's name on a map, in bytes.
const longestName = 32

// Join returns the link of a new card at the end of a cable. The link owns cable and closes it. On
// an error the cable does not change. A nil cfg means the defaults.
func Join(cable transport.Link, cfg *Config, opts myrinet.LiveOptions) (transport.Link, error) {
	info := cable.Info()
	with := Config{}
	if cfg != nil {
		with = *cfg
	}
	if with.Mapper == nil && with.Routes == nil && !info.Virtual {
		with.Mapper = LiveMapper()
	}
	if with.MAC == (ethertype.MAC{}) {
		with.MAC = info.MAC
	}
	v := &live{gate: driver.NewGate()}
	if err := v.at.Init(cable, opts, (*host)(v)); err != nil {
		return nil, err
	}
	with.fit(info.MTU, v.at.End)
	if err := with.resolve(); err != nil {
		return nil, err
	}
	if err := v.at.Plug(with.Card, with.longest()); err != nil {
		return nil, err
	}
	var err error
	if v.Link, err = newLink(v.at.Card, v, &with, info.Interface); err != nil {
		return nil, err
	}
	v.info.Virtual, v.info.Hardware, v.info.Unprotected = info.Virtual, info.Hardware, info.Unprotected
	if w, ok := cable.(optional.Watcher); ok {
		return &watched{v, w}, nil
	}
	return v, nil
}

// fit fills in the sizes that are not set, for a cable whose link has the given MTU.
func (cfg *Config) fit(mtu int, end *hardware.End) {
	if cfg.MTU == 0 {
		cfg.MTU = mtu - Overhead
		standard := cfg.Card.SRAM == 0 || cfg.Card.SRAM >= hardware.DefaultSRAM
		if standard && PacketSize(longMTU) <= min(end.Part(), end.MaxPacket()) {
			cfg.MTU = longMTU
		}
	}
	if cfg.Slots == 0 {
		cfg.Slots = min(max(liveRing/max(cfg.MTU, 1), leastSlots), DefaultSlots)
	}
}

// live is a Link on a live cable. Send, Recv and Wait drive both.
type live struct {
	*Link
	at   station.Live // guarded by the lock of Link
	gate *driver.Gate // of Wait, around the cable

	// Guarded by the lock of Link.
	asleep bool // a goroutine sleeps in wait, until the time in until
	until  int64

	woken atomic.Bool
	due   atomic.Int64 // time of the next drive, readable without the lock
}

// watched is a live link whose cable can watch a descriptor.
type watched struct {
	*live
	watcher optional.Watcher
}

// Watch implements optional.Watcher.
func (w *watched) Watch(fd int) { w.watcher.Watch(fd) }

var (
	_ optional.Watcher  = (*watched)(nil)
	_ transport.Checker = (*live)(nil)
	_ optional.Parking  = (*live)(nil)
)

// Place implements optional.Parking, if the cable does.
func (v *live) Place() optional.Place { return optional.PlaceOf(v.at.Cable) }

// Check implements transport.Checker. It converts the MTU of the cable to that of this link.
func (v *live) Check() error {
	err := transport.Check(v.at.Cable)
	var change *transport.ChangeError
	if errors.As(err, &change) && change.What == "MTU" {
		change := *change
		if change.MTU -= Overhead; change.MTU >= v.info.MTU {
			return nil // packets were shorter than the cable's old MTU
		}
		return &change
	}
	return err
}

// Up reports whether a card or switch is present at the other end of the cable.
func (v *live) Up() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at.End.Up()
}

func (v *live) snapshot() *hardware.LivePort { return v.at.Port() }

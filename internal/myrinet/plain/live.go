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

// Overhead is how much smaller the MTU of a live link is than its cable's by default, so
// that a packet is one frame, whatever its route.
const Overhead = ethertype.HeaderSize - ethertype.EthernetSize + MaxHops + framing.FabricLeast + ethertype.EthernetSize

// longMTU is the MTU of a live link whose cable may carry long frames (transport.LongLink):
// eight buffers for packets of that size find room in the papers' SRAM, beside the table.
const longMTU = 30 << 10

// liveRing is about how many bytes a live link's receive ring holds: it cycles through
// all of them, and more would not stay in a processor's cache.
const (
	liveRing   = 1 << 20
	leastSlots = 32
)

// OpenConfig says what to open.
type OpenConfig struct {
	Interface string // name or MAC of the network interface that is the cable's end; "" for the only one that is up
	Config
	Cable myrinet.LiveOptions
}

// Open opens the card at a network interface, which is one end of a cable: what is at the
// other end is a card, too, or a port of a switch (bobnet switch). Its errors are those of
// ring.Open; one that wraps EADDRINUSE says that the interface has a card or a switch
// already. A nil cfg means defaults.
func Open(ctx context.Context, cfg *OpenConfig) (transport.Link, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	return station.Open(ctx, cfg.Interface, true, func(cable transport.Link) (transport.Link, error) {
		return Join(cable, &cfg.Config, cfg.Cable)
	})
}

// LiveMapper returns the options of a mapper between processes, which may have to wait for
// a processor before they answer. The inputs of a live fabric hold 16 frames at least, so that
// as many probes can be under way: most are for ports without a cable, and are answered by
// nothing but time.
func LiveMapper() *myrinet.MapperOptions {
	name := os.Getenv(EnvHost)
	if name == "" {
		name, _ = os.Hostname() // it is for people
	}
	return &myrinet.MapperOptions{
		Name: name[:min(len(name), longestName)], Seed: rand.Uint64(), Period: 500 * time.Millisecond, Timeout: 2 * time.Millisecond, Probes: 16,
	}
}

// EnvHost is the environment variable that says what this host is called on maps. Without
// it that is its host name, which the namespaces of one machine share.
const EnvHost = "BOBNET_HOST"

// longestName is the most bytes of a host's name that a map has.
const longestName = 32

// Join returns the link of a new card at the end of a cable, which is cable from now on:
// Close closes it. On an error it is as it was. A nil cfg means defaults.
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

// fit fills in what is left out of sizes, for a cable whose link has the given MTU.
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

// live is a Link on a live cable. Whoever calls Send, Recv or Wait drives both.
type live struct {
	*Link
	at   station.Live // under the lock of Link
	gate *driver.Gate // of Wait, around the cable

	// Under the lock of Link.
	asleep bool // somebody is in wait, until the time until or the next one
	until  int64

	woken atomic.Bool
	due   atomic.Int64 // when to drive again, for who asks without the lock
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

// Place implements optional.Parking, where the cable does.
func (v *live) Place() optional.Place { return optional.PlaceOf(v.at.Cable) }

// Check implements transport.Checker: what it says of an MTU is in terms of this link's.
func (v *live) Check() error {
	err := transport.Check(v.at.Cable)
	var change *transport.ChangeError
	if errors.As(err, &change) && change.What == "MTU" {
		change := *change
		if change.MTU -= Overhead; change.MTU >= v.info.MTU {
			return nil // packets were shorter than the cable allowed
		}
		return &change
	}
	return err
}

// Up reports whether there is a card or a switch at the other end of the cable.
func (v *live) Up() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at.End.Up()
}

func (v *live) snapshot() *hardware.LivePort { return v.at.Port() }

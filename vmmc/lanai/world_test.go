package lanai_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/wildhost"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

func mac(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 2, byte(i)} }

// network is hosts with cards in virtual time, all at one switch.
type network struct {
	*sim.World
	t      testing.TB
	fabric *myrinet.Fabric
	sw     *myrinet.Switch
	hosts  map[int]*lanai.Card
	cables map[int]*myrinet.Cable
}

// wildHost is one that sends to so many others, and says to be any station, known or not.
func wildHost(hosts int) *wildhost.Host {
	var spy lanai.Spy
	wild := &wildhost.Host{Hosts: hosts, Heard: spy.Learn}
	wild.Forge = func(rng *rand.Rand) (uint16, []byte) {
		from := mac(wildhost.Port)
		switch rng.IntN(3) {
		case 0:
			from = mac(rng.IntN(hosts))
		case 1:
			from = mac(100 + rng.IntN(100))
		}
		return lanai.TypePacket, spy.Forge(rng, from)
	}
	return wild
}

// ports is how many ports the switch has: host i is at port i.
const ports = 8

func newNetwork(t testing.TB, opts myrinet.Options) *network {
	t.Helper()
	need.Simulated(t)
	w := sim.New(sim.Options{Seed: opts.Seed, Limit: 10 * time.Minute})
	f, err := myrinet.New(w, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &network{World: w, t: t, fabric: f, sw: f.Switch("s"), hosts: map[int]*lanai.Card{}, cables: map[int]*myrinet.Cable{}}
}

// routes returns the routes of host i to all others.
func routes(i int) (r []myrinet.HostRoute) {
	for k := range ports {
		if k != i {
			r = append(r, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
		}
	}
	return r
}

// host adds host i.
func (n *network) host(i int, cfg lanai.Config) *lanai.Card {
	n.t.Helper()
	cfg.MAC = mac(i)
	if cfg.Mapper == nil {
		cfg.Routes = routes(i)
	} else {
		own := *cfg.Mapper
		own.Seed = uint64(i) + 1
		cfg.Mapper = &own
	}
	var port *myrinet.Port
	virtual := myrinet.Virtual{World: n.World, Waiter: func() myrinet.Waiter { return n.Waiter() }}
	h, err := lanai.NewVirtual(virtual, func(c myrinet.Host) *myrinet.Port {
		port = n.fabric.Host(mac(i).String(), c)
		return port
	}, &cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.cables[i], err = n.fabric.Join(port, n.sw.Port(i)); err != nil {
		n.t.Fatal(err)
	}
	n.hosts[i] = h
	return h
}

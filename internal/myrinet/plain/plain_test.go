package plain_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// segment is hosts on a fabric.
type segment struct {
	t testing.TB
	w *sim.World
	f *myrinet.Fabric
}

func newSegment(t testing.TB, opts myrinet.Options) *segment {
	w := sim.New(sim.Options{Seed: opts.Seed})
	f, err := myrinet.New(w, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &segment{t, w, f}
}

func mac(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 1, byte(i)} }

// host adds a host, plugged in at port to; nil for nowhere yet. It returns the link and
// the port of its card.
func (s *segment) host(i int, cfg plain.Config, to *myrinet.Port) (optional.Parking, *myrinet.Port) {
	s.t.Helper()
	cfg.MAC = mac(i)
	var port *myrinet.Port
	virtual := myrinet.Virtual{World: s.w, Waiter: func() myrinet.Waiter { return s.w.Waiter() }}
	l, err := plain.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
		port = s.f.Host(cfg.Card.Name, h)
		return port
	}, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if to != nil {
		s.join(port, to)
	}
	return l, port
}

func (s *segment) join(a, b *myrinet.Port) {
	if _, err := s.f.Join(a, b); err != nil {
		s.t.Fatal(err)
	}
}

// pair is two hosts joined by a cable.
func (s *segment) pair(cfg plain.Config) (a, b optional.Parking) {
	a, port := s.host(1, cfg, nil)
	b, _ = s.host(2, cfg, port)
	return a, b
}

// TestLink runs the links' suite over a direct cable and over switches, with and without
// a timing model.
func TestLink(t *testing.T) {
	for name, cfg := range map[string]plain.Config{
		"default":      {},
		"PCI":          {Card: myrinet.CardConfig{Timing: myrinet.PCITiming()}},
		"SBus":         {Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}, MTU: 8192},
		"jumbo":        {MTU: 9000},
		"short ring":   {Slots: 200},
		"another type": {EtherType: 0x88b7, Ports: transport.PortRange{Lo: 5, Hi: 5}},
	} {
		if !need.Full() && name != "PCI" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				a, b := newSegment(t, myrinet.Options{}).pair(cfg)
				return linktest.Pair{A: a, B: b}
			})
		})
	}
	t.Run("two switches", func(t *testing.T) {
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			s := newSegment(t, myrinet.Options{})
			x, y := s.f.Switch("x"), s.f.Switch("y")
			s.join(x.Port(7), y.Port(0))
			a, _ := s.host(1, plain.Config{Routes: []myrinet.HostRoute{{To: mac(2), Turns: myrinet.Route{6, 3}}}}, x.Port(1))
			b, _ := s.host(2, plain.Config{Routes: []myrinet.HostRoute{{To: mac(1), Turns: myrinet.Route{-3, -6}}}}, y.Port(3))
			return linktest.Pair{A: a, B: b}
		})
	})
}

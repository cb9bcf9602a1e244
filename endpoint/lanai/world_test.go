package lanai_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// segment is hosts on a fabric in virtual time.
type segment struct {
	t testing.TB
	w *sim.World
	f *myrinet.Fabric
}

func newSegment(t testing.TB, opts myrinet.Options) *segment {
	t.Helper()
	need.Simulated(t)
	w := sim.New(sim.Options{Seed: opts.Seed})
	f, err := myrinet.New(w, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &segment{t, w, f}
}

func mac(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)} }

// card adds a card, plugged in at port to; nil for nowhere yet.
func (s *segment) card(i int, cfg lanai.Config, to *myrinet.Port) (*lanai.Card, *myrinet.Port) {
	s.t.Helper()
	cfg.MAC = mac(i)
	cfg.Seed = uint64(i + 1)
	var port *myrinet.Port
	c, err := lanai.NewVirtual(myrinet.Virtual{World: s.w, Waiter: func() myrinet.Waiter { return s.w.Waiter() }}, func(h myrinet.Host) *myrinet.Port {
		port = s.f.Host(cfg.MAC.String(), h)
		return port
	}, &cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if to != nil {
		s.join(port, to)
	}
	return c, port
}

func (s *segment) join(a, b *myrinet.Port) *myrinet.Cable {
	s.t.Helper()
	cable, err := s.f.Join(a, b)
	if err != nil {
		s.t.Fatal(err)
	}
	return cable
}

// pair is two cards joined by a cable.
func (s *segment) pair(cfg lanai.Config) (a, b *lanai.Card) {
	s.t.Helper()
	a, port := s.card(1, cfg, nil)
	b, _ = s.card(2, cfg, port)
	return a, b
}

// ticking is a provider in virtual time whose polls take some.
type ticking struct {
	provider.Provider
	w *sim.World
}

func (p ticking) Poll() error {
	if err := p.w.Sleep(5_000); err != nil {
		return err
	}
	return p.Provider.Poll()
}

// conforms returns what the suite runs over: programs on two cards in virtual time.
func conforms(t *testing.T, w *sim.World, cards [2]*lanai.Card, client, server *providertest.Host) providertest.Net {
	var nodes [2]provider.Provider
	for i, up := range []*providertest.Host{client, server} {
		p, err := provider.OnCard(cards[i], up, &up.Budget, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		nodes[i] = ticking{p, w}
	}
	return providertest.Net{Dialer: nodes[0], To: nodes[1].Addr(), Nodes: nodes[:], Go: func(fn func()) { w.Go("waker", fn) }}
}

// TestConforms: the card keeps the providers' contract in virtual time, with and without a
// timing model, and as GAM.
func TestConforms(t *testing.T) {
	for name, cfg := range map[string]lanai.Config{
		"default":  {},
		"suspends": {Suspend: true, Frames: 2},
		"SBus":     {Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}},
		"GAM":      {Unreliable: true, Unprotected: true, Unnamed: true, Pipelined: true, Spin: true},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
				s := newSegment(t, myrinet.Options{})
				a, b := s.pair(cfg)
				return conforms(t, s.w, [2]*lanai.Card{a, b}, client, server)
			})
		})
	}
}

// TestConformsLive: so it does live, over a cable between two network namespaces.
func TestConformsLive(t *testing.T) {
	veth := vethtest.New(t, 1500)
	providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
		var nodes [2]provider.Provider
		for side, up := range []*providertest.Host{client, server} {
			p, err := provider.OnCard(openVeth(t, veth, side), up, &up.Budget, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			nodes[side] = p
		}
		return providertest.Net{Dialer: nodes[0], To: nodes[1].Addr(), Nodes: nodes[:]}
	})
}

// openVeth opens a card at one side of a cable between two network namespaces.
func openVeth(t testing.TB, veth *vethtest.Pair, side int) (c *lanai.Card) {
	t.Helper()
	return openVethWith(t, veth, side, lanai.Config{})
}

func openVethWith(t testing.TB, veth *vethtest.Pair, side int, cfg lanai.Config) (c *lanai.Card) {
	t.Helper()
	err := veth.In(side, func() (err error) {
		cfg.Interface, cfg.Routes = vethtest.Name, []myrinet.HostRoute{{To: ethertype.Broadcast}} // no mapper, which allocates
		c, err = lanai.Open(t.Context(), &cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

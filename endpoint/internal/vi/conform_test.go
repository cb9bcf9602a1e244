package vi_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/internal/vi"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestConforms: the provider over virtual interfaces keeps the contract.
func TestConforms(t *testing.T) {
	providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
		c, v := open(t, client, shared), open(t, server, shared)
		return providertest.Net{Dialer: c, To: v.Addr(), Nodes: []provider.Provider{c, v}}
	})
}

// TestConformsVirtual: so it does in virtual time, on a network that loses nothing, and on one
// that loses 10 % and changes the order.
func TestConformsVirtual(t *testing.T) {
	for _, loss := range []float64{0, 0.1} {
		t.Run(fmt.Sprintf("loss %v", loss), func(t *testing.T) {
			providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
				w := sim.New(sim.Options{Seed: 3, Loss: loss, Reorder: loss})
				var nodes [2]provider.Provider
				for i, up := range []*providertest.Host{client, server} {
					link := vipl.Config{Link: w.Station(fmt.Sprint("host ", i)), Seed: uint64(i + 1)}
					nodes[i] = ticking{open(t, up, link), w, &nodes[1-i]}
				}
				return providertest.Net{Dialer: nodes[0], To: nodes[1].Addr(), Nodes: nodes[:], Go: func(fn func()) { w.Go("waker", fn) }}
			})
		})
	}
}

// ticking is a provider in virtual time whose polls take some.
type ticking struct {
	provider.Provider
	w     *sim.World
	other *provider.Provider
}

// Lookup has the other host poll meanwhile: in virtual time nobody else drives its engine.
func (p ticking) Lookup(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error) {
	found := false
	defer func() { found = true }()
	p.w.Go("the other host", func() {
		for !found && (*p.other).Poll() == nil {
		}
	})
	return p.Provider.Lookup(ctx, at, name)
}

func (p ticking) Poll() error {
	if err := p.w.Sleep(5_000); err != nil {
		return err
	}
	return p.Provider.Poll()
}

// shared is a NIC in shared memory.
var shared = vipl.Config{Driver: "shm", EtherType: 0x88B6}

func open(t *testing.T, h *providertest.Host, cfg vipl.Config) *vi.Provider {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	p, err := vi.Open(t.Context(), vi.Config{NIC: nic}, h, &h.Budget, &h.Corked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

package endpoint

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/vi"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/vipl"
)

// Only this file knows all providers. It selects one.

// openProvider opens the provider that the configuration selects.
func (c *Config) openProvider(ctx context.Context, up provider.Host, memory *provider.Budget, count *provider.Corked) (provider.Provider, error) {
	if c.provider != nil {
		return c.provider(up, memory, count)
	}
	if c.Card != nil {
		return provider.OnCard(c.Card, up, memory, c.PeerTimeout)
	}
	way, err := vi.Open(ctx, vi.Config{NIC: c.NIC, Interface: c.Interface, Ports: c.Ports, PeerTimeout: c.PeerTimeout}, up, memory, count)
	if err != nil {
		return nil, err
	}
	return way, nil
}

// connectionMemory returns the maximum memory, in bytes, that the provider uses for a connection of
// a shape that another node requests.
func connectionMemory(s wire.Shape) int { return vi.ConnectionMemory(s) }

// Now returns the current time of the clock that the node uses, in nanoseconds.
func (n *Node) Now() int64 { return n.way.Now() }

// WithTimeout returns a copy of ctx that ends when d has passed on the clock that Now reads, or
// when cancel is called. In virtual time other deadlines have no effect.
func (n *Node) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	if n.cfg.Card != nil {
		return n.cfg.Card.WithTimeout(ctx, d)
	}
	if nic := n.NIC(); nic != nil {
		return nic.WithTimeout(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// NIC returns the NIC that the node uses, or nil if it uses none. It gives access to the counters
// and the snapshot of a NIC that Open has opened.
func (n *Node) NIC() *vipl.NIC {
	if way, ok := n.way.(*vi.Provider); ok {
		return way.NIC
	}
	return nil
}

package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/vi"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/vipl"
)

// This file alone knows which providers there are, and chooses one.

// open opens the provider that the configuration asks for.
func (c *Config) open(up provider.Host, memory *provider.Budget, count *provider.Corked) (provider.Provider, error) {
	if c.provider != nil {
		return c.provider(up, memory, count)
	}
	way, err := vi.Open(vi.Config{NIC: c.NIC, Interface: c.Interface, Ports: c.Ports, PeerTimeout: c.PeerTimeout}, up, memory, count)
	if err != nil {
		return nil, err
	}
	return way, nil
}

// connectionMemory is the most that the provider takes for one connection of a shape
// that another node asks for, in bytes.
func connectionMemory(s wire.Shape) int { return vi.ConnectionMemory(s) }

// NIC returns the NIC that the node uses, or nil if it uses none.
func (n *Node) NIC() *vipl.NIC {
	if way, ok := n.way.(*vi.Provider); ok {
		return way.NIC
	}
	return nil
}

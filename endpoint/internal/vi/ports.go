package vi

import (
	"context"
	"errors"
	"syscall"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Each connection to another node takes a port of the NIC, on both sides. A NIC that
// nobody chooses ports for has 1023, which is too few for two nodes of many endpoints
// that all talk to each other. There is an end to ports, though, and as many programs
// may want some on one interface: so the first few nodes there get many, and the others
// what any NIC gets.
const (
	portBlock  = 1024          // that a NIC claims together
	widePorts  = 9 * portBlock // for 64 x 64 endpoints, each of which asks and is asked
	wideRanges = 3             // of these on an interface
)

// openNIC opens the node's own NIC.
func openNIC(ctx context.Context, c *Config) (*vipl.NIC, error) {
	if c.Ports != (transport.PortRange{}) {
		return vipl.Open(ctx, &vipl.Config{Interface: c.Interface, Ports: c.Ports})
	}
	for i := range wideRanges {
		lo := uint16(portBlock + i*widePorts)
		nic, err := vipl.Open(ctx, &vipl.Config{Interface: c.Interface, Ports: transport.PortRange{Lo: lo, Hi: lo + widePorts - 1}})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nic, err
		}
	}
	return vipl.Open(ctx, &vipl.Config{Interface: c.Interface})
}

package vi

import (
	"context"
	"errors"
	"syscall"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Each connection to another node uses a port of the NIC, on both sides. By default a NIC has 1023
// ports, which is too few for two nodes with many endpoints that all communicate. But the ports of
// an interface are limited, and many programs may need some. So the first few nodes on an interface
// get many ports, and the others the default number.
const (
	portBlock  = 1024          // ports that a NIC claims together
	widePorts  = 9 * portBlock // for 64 x 64 endpoints, each of them both client and server
	wideRanges = 3             // number of such ranges on an interface
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

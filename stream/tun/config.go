package tun

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/vipl"
)

// DefaultNetwork is the default name of the network.
const DefaultNetwork = "default"

// Config configures a host's interface to a network.
type Config struct {
	// NIC carries the packets. The caller keeps ownership. Nil means a NIC that Open opens with the
	// defaults of package vipl, and that closes with the Tun.
	NIC  *vipl.NIC
	VIPL vipl.Config
	// Device is the name of the new interface; empty means bobnet0, bobnet1 and so on.
	Device string
	// Addrs are the addresses of the interface, 1 to 16, each with the prefix length of the
	// network.
	Addrs []netip.Prefix
	// Network is the name of the network, at most MaxNetwork bytes. Hosts of other networks on the
	// segment are ignored. Empty means DefaultNetwork.
	Network string
	// MTU is the length of the longest packet in bytes, MinMTU to MaxMTU; 0 means MaxMTU. It does
	// not depend on the segment's MTU.
	MTU int
	// Logger receives rare, human-readable events: neighbours that appear and disappear, claims of
	// addresses. Nil means slog.Default(). Its handler is called as documented at
	// vipl.Config.Logger, and may block.
	Logger *slog.Logger
}

// ErrConfig is wrapped by the error of Open for an invalid Config.
var ErrConfig = errors.New("tun: invalid configuration")

func (c *Config) withDefaults() (Config, error) {
	var d Config
	if c != nil {
		d = *c
	}
	d.Network = cmp.Or(d.Network, DefaultNetwork)
	d.MTU = cmp.Or(d.MTU, MaxMTU)
	d.Logger = logqueue.New(d.Logger).Logger()
	switch {
	case len(d.Addrs) == 0 || len(d.Addrs) > maxAddrs:
		return d, fmt.Errorf("%w: %d addresses (want 1 to %d, such as 10.9.0.1/24)", ErrConfig, len(d.Addrs), maxAddrs)
	case len(d.Network) > MaxNetwork || strings.Contains(d.Network, "/"):
		return d, fmt.Errorf("%w: network name %q (want at most %d bytes without a slash)", ErrConfig, d.Network, MaxNetwork)
	case d.MTU < MinMTU || d.MTU > MaxMTU:
		return d, fmt.Errorf("%w: MTU %d (want %d to %d)", ErrConfig, d.MTU, MinMTU, MaxMTU)
	}
	for i, p := range d.Addrs {
		a := p.Addr()
		if !p.IsValid() || !ofHost(a) {
			return d, fmt.Errorf("%w: %v is not a host address with a prefix length, such as 10.9.0.1/24", ErrConfig, p)
		}
		for _, q := range d.Addrs[:i] {
			if q.Addr() == a {
				return d, fmt.Errorf("%w: duplicate address %v", ErrConfig, a)
			}
		}
	}
	return d, nil
}

// ofHost reports whether a can be the address of a host's interface.
func ofHost(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && !a.Is4In6() && a.Zone() == ""
}

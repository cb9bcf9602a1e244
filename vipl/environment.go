package vipl

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vipl/internal/links"
)

// Environment variables that configure how a program reaches its peers, without a change of its
// code. Open reads the first three for the fields of Config that are zero. Package job reads the
// last.
//
//	BOBNET_IFACE=10.0.0.7 BOBNET_DRIVER=udp BOBNET_PEERS=10.0.0.7,10.0.1.8 BOBNET_TIMEOUT=2m
const (
	EnvInterface = "BOBNET_IFACE"   // Config.Interface
	EnvDriver    = "BOBNET_DRIVER"  // Config.Driver
	EnvPeers     = "BOBNET_PEERS"   // Config.Peers, with commas between them; for driver udp
	EnvTimeout   = "BOBNET_TIMEOUT" // maximum time that the ranks of a job wait for each other at the start, such as 90s: mplite.Config.Timeout
)

// Drivers returns the names that Config.Driver may have, the default first.
func Drivers() []string { return links.Drivers() }

// FromEnvironment returns a copy of c in which zero fields Interface, Driver and Peers have the
// values of the environment variables, as Open does. It reads only the variables that have an
// effect: EnvPeers only for driver udp, and none if Link is set. The error names the variable that
// is invalid.
func (c Config) FromEnvironment() (Config, error) {
	if c.Link != nil {
		return c, nil
	}
	if c.Interface == "" {
		c.Interface = os.Getenv(EnvInterface)
	}
	if c.Driver == "" {
		c.Driver = os.Getenv(EnvDriver)
		if c.Driver != "" && !slices.Contains(Drivers(), c.Driver) {
			return c, opError("read "+EnvDriver, ErrArgument, "unknown driver %q (want one of %s)", c.Driver, strings.Join(Drivers(), ", "))
		}
	}
	if c.Driver != "udp" || len(c.Peers) > 0 {
		return c, nil
	}
	var err error
	c.Peers, err = parsePeers(os.Getenv(EnvPeers))
	return c, err
}

// parsePeers parses a comma-separated list of IP addresses.
func parsePeers(list string) (peers []netip.Addr, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, opError("read "+EnvPeers, ErrArgument, "%q is not an IP address (want a comma-separated list)", text)
		}
		peers = append(peers, ip)
	}
	return peers, nil
}

// timeoutWanted returns the value of EnvTimeout, or 0 if it is not set.
func timeoutWanted() (time.Duration, error) {
	text := os.Getenv(EnvTimeout)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, opError("read "+EnvTimeout, ErrArgument, "invalid duration %q (want a positive value with a unit, such as 90s or 2m)", text)
	}
	return d, nil
}

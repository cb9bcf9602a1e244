package udp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
)

// Sizes of the headers below a frame, in bytes.
const (
	headers4 = 20 + 8
	headers6 = 40 + 8
	// maxDatagram is the largest IP packet that its length fields permit.
	maxDatagram = 65535
)

// candidate is a network interface with IP addresses. Unlike those of package
// iface it may be the loopback, or have no MAC address.
type candidate struct {
	index    int
	name     string
	mac      net.HardwareAddr
	mtu      int
	state    iface.State
	loopback bool
	ips      []netip.Addr // without zones
	all      netip.Prefix // the IPv4 network of the loopback interface, which has all its addresses
}

// String returns one line: name, state, addresses and MTU.
func (c *candidate) String() string {
	addrs := "no IP address"
	if len(c.ips) > 0 {
		addrs = strings.Trim(fmt.Sprint(c.ips), "[]")
	}
	return fmt.Sprintf("%s (%s, %s, MTU %d)", c.name, c.state, addrs, c.mtu)
}

// station is an interface, and one of its addresses.
type station struct {
	candidate
	ip  netip.Addr
	mac ethertype.MAC // derived from ip
}

// list returns the interfaces of the network namespace.
func list() ([]candidate, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("%w: cannot list them: %w", transport.ErrInterface, err)
	}
	var found []candidate
	for _, ifi := range all {
		c := candidate{index: ifi.Index, name: ifi.Name, mac: ifi.HardwareAddr, mtu: ifi.MTU,
			state: iface.Up, loopback: ifi.Flags&net.FlagLoopback != 0}
		switch {
		case ifi.Flags&net.FlagUp == 0:
			c.state = iface.Down
		case !driver.Connected(&ifi):
			c.state = iface.NoCarrier
		}
		addrs, err := ifi.Addrs()
		if err != nil {
			continue // the interface was just deleted
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				c.ips = append(c.ips, prefix.Addr().Unmap().WithZone(""))
				if c.loopback && prefix.Addr().Is4() {
					c.all = prefix
				}
			}
		}
		found = append(found, c)
	}
	return found, nil
}

func init() {
	iface.FindUDP = func(want string) (iface.Interface, netip.Addr, error) {
		s, err := find(&Config{Interface: want})
		if err != nil {
			return iface.Interface{}, netip.Addr{}, err
		}
		found := iface.Interface{Index: s.index, Name: s.name, MTU: s.mtu, State: s.state}
		copy(found.MAC[:], s.candidate.mac)
		return found, s.ip, nil
	}
}

// find chooses among the interfaces of the host. If cfg names none and none is up, it waits a few
// seconds for the carrier of one that is enabled and has an address.
func find(cfg *Config) (*station, error) {
	return driver.AwaitCarrier(func() (s *station, coming bool, err error) {
		all, err := list()
		if err != nil {
			return nil, false, err
		}
		s, err = choose(all, cfg)
		return s, err != nil && cfg.Interface == "" && !has(all, cfg, iface.Up) && has(all, cfg, iface.NoCarrier), err
	})
}

// has reports whether an interface other than the loopback is in the given state and has an address
// that cfg permits.
func has(all []candidate, cfg *Config, state iface.State) bool {
	return slices.ContainsFunc(all, func(c candidate) bool {
		return !c.loopback && c.state == state && c.address(cfg.Network, netip.Addr{}).IsValid()
	})
}

// choose returns the station that cfg selects: by the interface's name, its MAC or one of its IP
// addresses. If cfg selects none, it returns the only one that is up, except the loopback
// interface.
func choose(all []candidate, cfg *Config) (*station, error) {
	wantIP, _ := netip.ParseAddr(cfg.Interface)
	wantIP = wantIP.Unmap().WithZone("")
	wantMAC, macErr := ethertype.ParseMAC(cfg.Interface)
	var fit []station
	for _, c := range all {
		ip := c.address(cfg.Network, wantIP)
		named := c.name == cfg.Interface || macErr == nil && string(c.mac) == string(wantMAC[:]) ||
			macErr == nil && ip.IsValid() && macOf(ip) == wantMAC
		switch {
		case cfg.Interface == "" && !c.loopback && c.state == iface.Up && ip.IsValid(),
			wantIP.IsValid() && ip == wantIP:
			fit = append(fit, station{c, ip, macOf(ip)})
		case named && !ip.IsValid():
			return nil, refuse(all, fmt.Sprintf("%s has no %s address; give it one: ip address add ADDRESS/BITS dev %s", c.name, family(cfg.Network), c.name))
		case named:
			fit = append(fit, station{c, ip, macOf(ip)})
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0].usable(all)
	case len(fit) > 1:
		return nil, refuse(all, fmt.Sprintf("%d interfaces will do; name the one to use", len(fit)))
	case cfg.Interface == "" && has(all, cfg, iface.NoCarrier):
		return nil, refuse(all, fmt.Sprintf("no interface with an %s address has a carrier; check the cable, the switch's port or, of a veth, that the other end is up", family(cfg.Network)))
	case cfg.Interface == "":
		return nil, refuse(all, fmt.Sprintf("no interface with an %s address is up", family(cfg.Network)))
	}
	return nil, refuse(all, fmt.Sprintf("no interface has the name, MAC or %s address %q", family(cfg.Network), cfg.Interface))
}

func family(network string) string {
	switch network {
	case "udp4":
		return "IPv4"
	case "udp6":
		return "IPv6"
	}
	return "IP"
}

// address returns the address of c to use: the requested one, otherwise an IPv4 address, otherwise
// an IPv6 address, with link-local ones last.
func (c *candidate) address(network string, want netip.Addr) netip.Addr {
	if c.all.IsValid() && c.all.Contains(want) && network != "udp6" {
		return want
	}
	var best netip.Addr
	rank := func(ip netip.Addr) int {
		switch {
		case !ip.IsValid():
			return 0
		case ip == want:
			return 4
		case ip.Is4():
			return 3
		case !ip.IsLinkLocalUnicast():
			return 2
		}
		return 1
	}
	for _, ip := range c.ips {
		if ip.Is4() && network == "udp6" || ip.Is6() && network == "udp4" {
			continue
		}
		if rank(ip) > rank(best) {
			best = ip
		}
	}
	return best
}

// frameMTU returns the link's MTU: what the interface's MTU leaves for a frame without its Ethernet
// header.
func (c *candidate) frameMTU(ip netip.Addr) int {
	headers := headers4
	if ip.Is6() {
		headers = headers6
	}
	return min(c.mtu, maxDatagram) - headers - ethertype.EthernetSize
}

// usable returns s unless it cannot carry a Bobnet frame.
func (s station) usable(all []candidate) (*station, error) {
	switch {
	case s.state == iface.Down:
		return nil, refuse(all, fmt.Sprintf("%s is down; switch it on: ip link set %s up", s.name, s.name))
	case s.frameMTU(s.ip) < ethertype.MinMTU:
		return nil, refuse(all, fmt.Sprintf("the MTU of %s is %d, which leaves %d for a frame of at least %d: ip link set %s mtu 1500",
			s.name, s.mtu, s.frameMTU(s.ip), ethertype.MinMTU, s.name))
	}
	return &s, nil
}

// refuse returns an error with the problem and the list of interfaces.
func refuse(all []candidate, why string) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: %s; this network namespace has no interface (see: ip address)", transport.ErrInterface, why)
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].String()
	}
	return fmt.Errorf("%w: %s; there are: %s", transport.ErrInterface, why, strings.Join(names, ", "))
}

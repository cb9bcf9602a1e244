// Package iface finds the network interface that a link is to use.
//
// It never guesses: without a name it selects the only usable interface. If there is none, or more
// than one, the error lists the interfaces and the remedy. It considers only the calling thread's
// network namespace.
package iface

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
)

// FindUDP returns the interface that driver udp selects for a name, an address or "", with its MAC
// address if it is Ethernet, and the IP address. Its errors are those of udp.Open. Package udp sets
// FindUDP.
var FindUDP func(want string) (Interface, netip.Addr, error)

// State is the current state of an interface.
type State string

// The states.
const (
	Up        State = "up"
	NoCarrier State = "no carrier" // enabled, but not connected to an interface that is up
	Down      State = "down"       // administratively down
)

// Interface is a snapshot of a network interface that carries Ethernet frames. It is comparable.
type Interface struct {
	Index int
	Name  string
	MAC   ethertype.MAC
	MTU   int // bytes, without the Ethernet header
	State State
	// Bridge is the name of the bridge that the interface is a port of, or "". The bridge takes the
	// frames that arrive.
	Bridge string
	// Macvlan describes the stations of this host that the interface cannot reach because it is a
	// macvlan, or has one on it. It is "" otherwise.
	Macvlan string
}

// String returns one line: name, state, MAC, MTU and bridge.
func (i Interface) String() string {
	port := ""
	if i.Bridge != "" {
		port = ", port of " + i.Bridge
	}
	return fmt.Sprintf("%s (%s, MAC %v, MTU %d%s)", i.Name, i.State, i.MAC, i.MTU, port)
}

// List returns the Ethernet interfaces of the network namespace, without the loopback, in the
// kernel's order.
func List() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("%w: cannot list them: %w", transport.ErrInterface, err)
	}
	kin := relations()
	var list []Interface
	for _, ifi := range all {
		if ifi.Flags&net.FlagLoopback != 0 || len(ifi.HardwareAddr) != len(ethertype.MAC{}) {
			continue
		}
		list = append(list, Interface{
			Index: ifi.Index,
			Name:  ifi.Name,
			MAC:   ethertype.MAC(ifi.HardwareAddr),
			MTU:   ifi.MTU,
			State: state(&ifi),

			Bridge:  kin[ifi.Index].bridge(kin),
			Macvlan: macvlan(ifi.Index, kin),
		})
	}
	return list, nil
}

func state(ifi *net.Interface) State {
	switch {
	case ifi.Flags&net.FlagUp == 0:
		return Down
	case !driver.Connected(ifi):
		return NoCarrier
	}
	return Up
}

// Find returns the interface that want names, by its name or MAC. If want is empty, it returns the
// only interface that is up and not a port of a bridge. If none is up, Find waits a few seconds for
// the carrier of the enabled ones. A named interface is returned even without a carrier. Errors
// wrap transport.ErrInterface, list the interfaces and contain the remedy.
func Find(want string) (Interface, error) {
	return driver.AwaitCarrier(func() (i Interface, coming bool, err error) {
		list, err := List()
		if err != nil {
			return i, false, err
		}
		i, err = choose(list, want)
		return i, err != nil && want == "" && len(withState(list, Up)) == 0 && len(withState(list, NoCarrier)) > 0, err
	})
}

// choose is Find over a given list.
func choose(list []Interface, want string) (Interface, error) {
	if want == "" {
		return only(list)
	}
	var found []Interface
	mac, err := ethertype.ParseMAC(want)
	for _, i := range list {
		if i.Name == want || err == nil && i.MAC == mac {
			found = append(found, i)
		}
	}
	if len(found) > 1 { // a bridge has the MAC of one of its ports
		found = slices.DeleteFunc(found, func(i Interface) bool { return i.Bridge != "" })
	}
	switch {
	case len(found) == 0:
		return Interface{}, refuse(list, fmt.Sprintf("there is no Ethernet interface %q", want))
	case len(found) > 1:
		return Interface{}, refuse(found, fmt.Sprintf("%d interfaces have the MAC %v; give a name", len(found), mac))
	}
	return usable(list, found[0])
}

// only returns the only interface of list that is up. A bridge counts in place of its ports,
// because it receives what arrives at them.
func only(list []Interface) (Interface, error) {
	up := withState(list, Up)
	switch len(up) {
	case 1:
		return usable(list, up[0])
	case 0:
		return Interface{}, refuse(list, noneUp(withState(list, NoCarrier), withState(list, Down)))
	}
	return Interface{}, refuse(up, fmt.Sprintf("%d interfaces are up; name the one to use", len(up)))
}

// noneUp returns the remedy if every interface is down or has no carrier.
func noneUp(bare, off []Interface) string {
	switch {
	case len(bare) > 0 && len(off) > 0:
		return fmt.Sprintf("no Ethernet interface has a carrier; %s; or switch another on: ip link set %s up", bare[0].obstacle(), off[0].Name)
	case len(bare) > 0:
		return "no Ethernet interface has a carrier; " + bare[0].obstacle()
	case len(off) > 0:
		return fmt.Sprintf("no Ethernet interface is up; switch one on: ip link set %s up", off[0].Name)
	}
	return "no Ethernet interface is up"
}

// withState returns the interfaces of list in a state, without ports of bridges.
func withState(list []Interface, state State) (found []Interface) {
	for _, i := range list {
		if i.State == state && i.Bridge == "" {
			found = append(found, i)
		}
	}
	return found
}

// usable returns i unless it cannot carry a Bobnet frame.
func usable(list []Interface, i Interface) (Interface, error) {
	switch {
	case i.State == Down, i.Bridge != "":
		return Interface{}, refuse(list, i.obstacle())
	case i.MTU < ethertype.MinMTU:
		return Interface{}, refuse(list, fmt.Sprintf("the MTU of %s is %d, Bobnet needs at least %d: ip link set %s mtu 1500",
			i.Name, i.MTU, ethertype.MinMTU, i.Name))
	case i.MTU > ethertype.MaxMTU:
		return Interface{}, refuse(list, fmt.Sprintf("the MTU of %s is %d, Bobnet takes at most %d: ip link set %s mtu %d",
			i.Name, i.MTU, ethertype.MaxMTU, i.Name, ethertype.MaxMTU))
	}
	return i, nil
}

// refuse returns an error with the problem and the list of interfaces.
func refuse(list []Interface, why string) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: %s; this network namespace has no Ethernet interface (see: ip link)",
			transport.ErrInterface, why)
	}
	names := make([]string, len(list))
	for n, i := range list {
		names[n] = i.String()
	}
	return fmt.Errorf("%w: %s; there are: %s", transport.ErrInterface, why, strings.Join(names, ", "))
}

// Package iface finds the network interface that a link is to use.
//
// It never guesses: without a name it takes the only interface that will do,
// and when there is none or more than one it says which there are and what to
// do. Only the calling thread's network namespace is looked at.
package iface

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// State is what an interface can do at the moment.
type State string

// The states.
const (
	Up        State = "up"
	NoCarrier State = "no carrier" // switched on, but nothing answers at the other end
	Down      State = "down"       // switched off
)

// Interface is a network interface that carries Ethernet frames. It is a
// snapshot and comparable.
type Interface struct {
	Index int
	Name  string
	MAC   ethertype.MAC
	MTU   int // bytes, without the Ethernet header
	State State
	// Bridge is the name of the bridge that it is a port of, which takes the frames
	// that come; "" if none.
	Bridge string
	// Macvlan says of which stations of this host it is cut off because it is a
	// macvlan, or has one on it; "" if none.
	Macvlan string
}

// String returns one line for people: name, state, MAC, MTU and its bridge.
func (i Interface) String() string {
	port := ""
	if i.Bridge != "" {
		port = ", port of " + i.Bridge
	}
	return fmt.Sprintf("%s (%s, MAC %v, MTU %d%s)", i.Name, i.State, i.MAC, i.MTU, port)
}

// List returns the Ethernet interfaces of the network namespace, the loopback
// left out, in the kernel's order.
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
			State: state(ifi.Flags),

			Bridge:  kin[ifi.Index].bridge(kin),
			Macvlan: macvlan(ifi.Index, kin),
		})
	}
	return list, nil
}

func state(f net.Flags) State {
	switch {
	case f&net.FlagUp == 0:
		return Down
	case f&net.FlagRunning == 0:
		return NoCarrier
	}
	return Up
}

// Find returns the interface that want names: by its name, by its MAC, or,
// when want is empty, the only one that is up and no port of a bridge. An
// interface without carrier serves when it is named. Errors wrap transport.ErrInterface, list what there
// is and say what to do.
func Find(want string) (Interface, error) {
	list, err := List()
	if err != nil {
		return Interface{}, err
	}
	return choose(list, want)
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

// only returns the one interface of list that is up. The bridge receives what
// comes to its ports, and has their segment.
func only(list []Interface) (Interface, error) {
	var up []Interface
	for _, i := range list {
		if i.State == Up && i.Bridge == "" {
			up = append(up, i)
		}
	}
	switch len(up) {
	case 1:
		return usable(list, up[0])
	case 0:
		advice := "no Ethernet interface is up"
		if len(list) > 0 {
			advice += fmt.Sprintf("; switch one on: ip link set %s up", list[0].Name)
		}
		return Interface{}, refuse(list, advice)
	}
	return Interface{}, refuse(up, fmt.Sprintf("%d interfaces are up; name the one to use", len(up)))
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

// refuse builds the error: what was found wrong, and the interfaces there are.
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

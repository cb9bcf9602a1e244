package lab

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// A lab with Config.Fabric has a namespace for each host of the file, which is a rank, and
// for each switch; each cable is a veth pair between two of them. The end at a host is
// bob0, that at port 3 of a switch is p3:
//
//	h0: bob0 ==== p0 | s0 | p7 ==== p0 | s1 | p3 ==== bob0 :h1
//
// The caller of New starts the switches (StartSwitch).

// fabricMTU is the default MTU of a fabric's cables in bytes. With it, the memory of a card has room
// for some tens of packets of one frame each.
const fabricMTU = 9000

// checkFabric validates c.Fabric. The error contains the line.
func (c *Config) checkFabric() error {
	f := c.Fabric
	if f == nil {
		return nil
	}
	switch {
	case c.N != 0 || c.Topology != Auto:
		return fmt.Errorf("lab: a fabric defines the number of ranks and their topology: leave out N and topology")
	case c.PerHost > 1:
		return fmt.Errorf("lab: %d ranks in a namespace: a host of a fabric has one card, which one program drives (leave out the fabric)", c.PerHost)
	case len(c.Cuts) > 0:
		return fmt.Errorf("lab: %v %v: the cables of a fabric cannot be cut (use topology bridge)", c.Cuts[0].Kind, c.Cuts[0])
	case len(f.Hosts) == 0:
		return fmt.Errorf("lab: the fabric has no host to run ranks on (add lines that begin with host)")
	case len(f.Hosts) > MaxRanks:
		return fmt.Errorf("lab: line %d: host %s: too many hosts: a lab has at most %d ranks", f.HostLines[MaxRanks], f.Hosts[MaxRanks], MaxRanks)
	}
	hosts, switches := make([]bool, len(f.Hosts)), make([]bool, len(f.Switches))
	for _, cable := range f.Cables {
		for _, p := range []topology.Plug{cable.A, cable.B} {
			if p.Host {
				hosts[p.Node] = true
			} else {
				switches[p.Node] = true
			}
		}
	}
	for i, plugged := range hosts {
		if !plugged {
			return fmt.Errorf("lab: line %d: host %s has no link and therefore no interface (add a link, as in: link %s s0:3)", f.HostLines[i], f.Hosts[i], f.Hosts[i])
		}
	}
	for i, plugged := range switches {
		if !plugged {
			return fmt.Errorf("lab: line %d: switch %s has no link and therefore no port (add a link, or delete the switch)", f.SwitchLines[i], f.Switches[i])
		}
	}
	return nil
}

// layCables creates the switches' namespaces and the cables, and waits until the switches' ends are
// up.
func (l *Lab) layCables(ctx context.Context) error {
	for range l.cfg.Fabric.Switches {
		ns, err := newNamespace(l.quietLoopback)
		l.boxes = append(l.boxes, ns)
		if err != nil {
			return err
		}
	}
	for i, c := range l.cfg.Fabric.Cables {
		if err := l.layCable(c); err != nil {
			return fmt.Errorf("line %d: the cable from %s to %s: %w", l.cfg.Fabric.CableLines[i], l.cfg.Fabric.Name(c.A), l.cfg.Fabric.Name(c.B), err)
		}
	}
	for i, ns := range l.boxes {
		err := inside(ns, func() error {
			for _, port := range l.ports(i) {
				if err := change(port.Interface, netlink.LinkSetUp); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("switch %s: %w", l.cfg.Fabric.Switches[i], err)
		}
	}
	return l.hostsUp(ctx)
}

// hostsUp brings the hosts' ends up, and waits until the switches' ends, which then have a carrier,
// are up.
func (l *Lab) hostsUp(ctx context.Context) error {
	for host, ns := range l.hosts {
		if err := inside(ns, func() error { return change(Interface, netlink.LinkSetUp) }); err != nil {
			return fmt.Errorf("host %s: %w", l.cfg.Fabric.Hosts[host], err)
		}
	}
	for i, ns := range l.boxes {
		err := inside(ns, func() error {
			for _, port := range l.ports(i) {
				if err := awaitUp(ctx, port.Interface); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("switch %s: %w", l.cfg.Fabric.Switches[i], err)
		}
	}
	return nil
}

// layCable creates the veth pair of a cable.
func (l *Lab) layCable(c topology.Join) error {
	ns, attrs := l.plug(c.A)
	peer, far := l.plug(c.B)
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerHardwareAddr, veth.PeerNamespace = far.Name, far.HardwareAddr, netlink.NsFd(peer)
	return inside(ns, func() error {
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("add a veth pair with MTU %d: %w", attrs.MTU, err)
		}
		return nil
	})
}

// plug returns the namespace and the interface attributes of a cable's end.
func (l *Lab) plug(p topology.Plug) (netns.NsHandle, netlink.LinkAttrs) {
	if p.Host {
		attrs := l.attrs(Interface)
		attrs.HardwareAddr = hostMAC(p.Node).HardwareAddr()
		return l.hosts[p.Node], attrs
	}
	return l.boxes[p.Node], l.attrs(portInterface(p.Port))
}

func portInterface(port int) string { return fmt.Sprintf("p%d", port) }

// SwitchPort is a port of a switch that has a cable.
type SwitchPort struct {
	Port      int
	Interface string
}

func (l *Lab) ports(i int) (list []SwitchPort) {
	for _, c := range l.cfg.Fabric.Cables {
		for _, p := range []topology.Plug{c.A, c.B} {
			if !p.Host && p.Node == i {
				list = append(list, SwitchPort{p.Port, portInterface(p.Port)})
			}
		}
	}
	return list
}

// Switches returns the number of the fabric's switches.
func (l *Lab) Switches() int { return len(l.boxes) }

// SwitchPorts returns the ports of switch i that have a cable, in the order of the cables.
func (l *Lab) SwitchPorts(i int) []SwitchPort { return l.ports(i) }

// StartSwitch starts cmd in the namespace of switch i, in a new session. The lab then owns cmd; Close
// kills it if it still runs.
func (l *Lab) StartSwitch(i int, cmd *exec.Cmd) (*Proc, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, ErrClosed
	}
	if i < 0 || i >= len(l.boxes) {
		return nil, fmt.Errorf("lab: switch %d: want 0 to %d", i, len(l.boxes)-1)
	}
	return l.launch(l.boxes[i], -1, "switch "+l.cfg.Fabric.Switches[i], cmd)
}

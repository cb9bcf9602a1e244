package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
)

const bridgeName = "hub"

// upTimeout bounds how long an interface may take to come up. The kernel
// does it from a work queue, in well under a second.
const upTimeout = 10 * time.Second

// build makes the namespaces, joins them and returns when every bob0 is up.
func (l *Lab) build(ctx context.Context) error {
	for range l.cfg.hosts() {
		ns, err := newNamespace(l.quietLoopback)
		l.hosts = append(l.hosts, ns)
		if err != nil {
			return err
		}
	}
	if l.cfg.Topology == Cables {
		if err := l.layCables(ctx); err != nil {
			return err
		}
	} else if err := l.join(); err != nil {
		return err
	}
	for host, ns := range l.hosts {
		if err := inside(ns, func() error { return l.configure(host) }); err != nil {
			return fmt.Errorf("namespace %d: %w", host, err)
		}
	}
	return l.awaitAll(ctx)
}

// awaitAll returns when every interface of the segment is up, both ends.
func (l *Lab) awaitAll(ctx context.Context) error {
	for host, ns := range l.hosts {
		if err := inside(ns, func() error { return awaitUp(ctx, Interface) }); err != nil {
			return fmt.Errorf("namespace %d: %w", host, err)
		}
	}
	if l.cfg.Topology != Bridge {
		return nil
	}
	return inside(l.hub, func() error {
		for host := range l.hosts {
			names := []string{portName(host)}
			if l.cfg.Narrow {
				names = append(names, wayName(host), l.cfg.hubPort(host))
			}
			for _, name := range names {
				if err := awaitUp(ctx, name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// quietLoopback prepares the calling thread's new namespace: loopback up, and
// no IPv6 on interfaces to come, whose router solicitations and duplicate
// address detection would be stray frames in every trace.
func (l *Lab) quietLoopback() error {
	const noIPv6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
	if err := os.WriteFile(noIPv6, []byte("1"), 0); err != nil {
		l.cfg.Log.Debug("lab interfaces will speak IPv6", "err", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// join lays the veth pairs and, unless the topology is Pair, the bridge.
func (l *Lab) join() error {
	if l.cfg.Topology == Pair {
		attrs := l.attrs(Interface)
		attrs.HardwareAddr = hostMAC(0).HardwareAddr()
		return inside(l.hosts[0], func() error { return l.addVeth(attrs, 1) })
	}
	var err error
	if l.hub, err = newNamespace(l.quietLoopback); err != nil {
		return err
	}
	return inside(l.hub, l.addBridge)
}

// addBridge makes the bridge in the calling thread's namespace, with a port
// for each of the ranks' namespaces.
func (l *Lab) addBridge() error {
	hub, err := l.newBridge(bridgeName)
	if err != nil {
		return err
	}
	for host := range l.hosts {
		bridge := hub
		if l.cfg.Narrow {
			if bridge, err = l.newBridge(edgeName(host)); err != nil {
				return err
			}
			if err := l.addNarrow(host, bridge, hub); err != nil {
				return err
			}
		}
		attrs := l.attrs(portName(host))
		attrs.MasterIndex = bridge.Index
		if err := l.addVeth(attrs, host); err != nil {
			return err
		}
		port, err := netlink.LinkByName(attrs.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", attrs.Name, err)
		}
		if err := netlink.LinkSetUp(port); err != nil {
			return fmt.Errorf("%s up: %w", attrs.Name, err)
		}
	}
	return nil
}

// newBridge makes a bridge in the calling thread's namespace.
func (l *Lab) newBridge(name string) (*netlink.Bridge, error) {
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: l.attrs(name), MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("adding a bridge with MTU %d: %w", l.cfg.MTU, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bridge up: %w", err)
	}
	return bridge, nil
}

// addVeth makes a veth pair between the calling thread's namespace and bob0
// in that of a host.
func (l *Lab) addVeth(near netlink.LinkAttrs, host int) error {
	veth := netlink.NewVeth(near)
	veth.PeerName = Interface
	veth.PeerHardwareAddr = hostMAC(host).HardwareAddr()
	veth.PeerNamespace = netlink.NsFd(l.hosts[host])
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("adding a veth pair with MTU %d to namespace %d: %w", near.MTU, host, err)
	}
	return nil
}

// attrs returns what all of the lab's interfaces have in common.
func (l *Lab) attrs(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, l.cfg.MTU
	return attrs
}

func portName(host int) string { return fmt.Sprintf("rank%d", host) }

// configure gives bob0 in the calling thread's namespace its IPv4 address and
// brings it up.
func (l *Lab) configure(host int) error {
	link, err := netlink.LinkByName(Interface)
	if err != nil {
		return fmt.Errorf("%s: %w", Interface, err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: hostAddr(host).AsSlice(), Mask: net.CIDRMask(16, 32)}}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("%s: adding address %s: %w", Interface, addr, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s up: %w", Interface, err)
	}
	return nil
}

// awaitUp returns when the interface in the calling thread's namespace is
// operational. Until then a bridge port forwards nothing, and the first frames
// of a job would be lost.
func awaitUp(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is still %s: %w", name, link.Attrs().OperState, ctx.Err())
		}
	}
}

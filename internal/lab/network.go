package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

const bridgeName = "hub"

// upTimeout is the maximum time for an interface to come up. The kernel does this in a work queue, in
// well under a second.
const upTimeout = 10 * time.Second

// build creates the namespaces, joins them and waits until every bob0 is up.
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

// awaitAll waits until both ends of every interface of the segment are up.
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

// quietLoopback prepares the calling thread's new namespace. It brings loopback up, and disables IPv6
// on new interfaces: router solicitations and duplicate address detection would be stray frames
// in every trace.
func (l *Lab) quietLoopback() error {
	const noIPv6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
	if err := os.WriteFile(noIPv6, []byte("1"), 0); err != nil {
		l.cfg.Log.Debug("cannot disable IPv6 on lab interfaces", "err", err)
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
			return fmt.Errorf("bring %s up: %w", attrs.Name, err)
		}
	}
	return nil
}

// newBridge makes a bridge in the calling thread's namespace.
func (l *Lab) newBridge(name string) (*netlink.Bridge, error) {
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: l.attrs(name), MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("add a bridge with MTU %d: %w", l.cfg.MTU, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bring the bridge up: %w", err)
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
		return fmt.Errorf("add a veth pair with MTU %d to namespace %d: %w", near.MTU, host, err)
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
		return fmt.Errorf("add address %s to %s: %w", addr, Interface, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", Interface, err)
	}
	if l.cfg.Segment {
		return segment()
	}
	return nil
}

// segment switches the offloads of sending off on bob0 in the calling thread's namespace.
func segment() error {
	tool, err := ethtool.NewEthtool()
	if err == nil {
		err = tool.Change(Interface, map[string]bool{"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-generic-segmentation": false})
		tool.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: offloads off: %w", Interface, err)
	}
	return nil
}

// awaitUp waits until the interface in the calling thread's namespace is operational. Before that, a
// bridge port forwards nothing, and the first frames of a job would be lost.
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

// wires is the state of the links behind the ranks' interfaces, which cuts change.
// In the hub's namespace each of theirs has a port on a bridge:
//
//	bob0 ==== rank0 | hub | rank1 ==== bob0
//
// A lab with Config.Narrow has a narrow pair before the hub, since a bridge drops a
// frame that is too long for the port by which it would leave, and tells nobody,
// while a veth refuses it to the sender:
//
//	bob0 ==== rank0 | edge0 | way0 ==== port0 | hub | port1 ==== way1 | edge1 | rank1 ==== bob0
//
// It is used under Lab.wiring.
type wires struct {
	down   []bool   // by host: without carrier
	island []string // by host: the bridge that its port is on
	mtu    int      // of the narrow pairs
}

func newWires(cfg Config) wires {
	w := wires{down: make([]bool, cfg.hosts()), island: make([]string, cfg.hosts()), mtu: cfg.MTU}
	for host := range w.island {
		w.island[host] = bridgeName
	}
	return w
}

func edgeName(host int) string { return fmt.Sprintf("edge%d", host) }
func wayName(host int) string  { return fmt.Sprintf("way%d", host) }

// hubPort returns the name of a host's port on the hub.
func (c Config) hubPort(host int) string {
	if c.Narrow {
		return fmt.Sprintf("port%d", host)
	}
	return portName(host)
}

// addNarrow joins a host's edge, to which its veth belongs, to the hub. It is called
// in the hub's namespace.
func (l *Lab) addNarrow(host int, edge, hub *netlink.Bridge) error {
	way := l.attrs(wayName(host))
	way.MasterIndex = edge.Index
	pair := netlink.NewVeth(way)
	pair.PeerName = l.cfg.hubPort(host)
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add the veth pair %s: %w", way.Name, err)
	}
	port, err := netlink.LinkByName(pair.PeerName)
	if err != nil {
		return fmt.Errorf("%s: %w", pair.PeerName, err)
	}
	err = errors.Join(netlink.LinkSetMTU(port, l.cfg.MTU), netlink.LinkSetMaster(port, hub), netlink.LinkSetUp(port), netlink.LinkSetUp(pair))
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", way.Name, bridgeName, err)
	}
	return nil
}

// Cut applies the cuts in active together and ignores their times. Without arguments it
// restores all links. It needs topology Bridge, and Config.Narrow for an MTUDrop. If a running job has
// cuts of its own, these change the links as well.
func (l *Lab) Cut(active ...Cut) error {
	for _, c := range active {
		if err := c.check(l.cfg); err != nil {
			return err
		}
		if l.cfg.Topology != Bridge || c.Kind == MTUDrop && !l.cfg.Narrow {
			return fmt.Errorf("lab: %v %v: not supported by this lab (needs topology bridge, and Config.Narrow for an MTU)", c.Kind, c)
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return ErrClosed
	}
	if l.cfg.Topology != Bridge {
		return nil
	}
	l.wiring.Lock()
	defer l.wiring.Unlock()
	want := l.wanted(active)
	if err := inside(l.hub, func() error { return l.rewire(want) }); err != nil {
		return fmt.Errorf("lab: cut links: %w", err)
	}
	return nil
}

// wanted returns the state in which all of active apply: ranks reach each other unless a partition
// separates them, and the lowest MTU counts.
func (l *Lab) wanted(active []Cut) wires {
	w := newWires(l.cfg)
	parts := make([]string, l.cfg.hosts()) // by host: its group in each partition
	for _, c := range active {
		for host := range parts {
			rank := host * l.cfg.PerHost // the others of this host are in its group
			switch {
			case c.Kind == Flap && c.group(rank) == 0:
				w.down[host] = true
			case c.Kind == Partition:
				parts[host] += fmt.Sprintf("/%d", c.group(rank))
			}
		}
		if c.Kind == MTUDrop {
			w.mtu = min(w.mtu, c.MTU)
		}
	}
	islands := map[string]string{parts[0]: bridgeName}
	for host, part := range parts {
		if _, known := islands[part]; !known {
			islands[part] = fmt.Sprintf("%s%d", bridgeName, len(islands))
		}
		w.island[host] = islands[part]
	}
	return w
}

// rewire changes the links to the state want. The calling thread must be in the hub's namespace.
func (l *Lab) rewire(want wires) error {
	have := &l.wires
	for host := range have.down {
		if want.down[host] != have.down[host] {
			set := netlink.LinkSetUp
			if want.down[host] {
				set = netlink.LinkSetDown
			}
			if err := change(portName(host), set); err != nil {
				return err
			}
			have.down[host] = want.down[host]
		}
		if want.mtu != have.mtu {
			narrow := func(link netlink.Link) error { return netlink.LinkSetMTU(link, want.mtu) }
			if err := errors.Join(change(wayName(host), narrow), change(l.cfg.hubPort(host), narrow)); err != nil {
				return err
			}
		}
		if want.island[host] != have.island[host] {
			if err := l.moveTo(want.island[host], host); err != nil {
				return err
			}
			have.island[host] = want.island[host]
		}
	}
	have.mtu = want.mtu
	return nil
}

// moveTo moves a host's port to another bridge, which it creates if necessary.
func (l *Lab) moveTo(island string, host int) error {
	bridge, err := netlink.LinkByName(island)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		bridge, err = l.newBridge(island)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", island, err)
	}
	return change(l.cfg.hubPort(host), func(port netlink.Link) error { return netlink.LinkSetMaster(port, bridge) })
}

// change calls set with an interface of the calling thread's namespace.
func change(name string, set func(netlink.Link) error) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = set(link)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

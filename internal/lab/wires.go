package lab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

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
		return fmt.Errorf("adding the veth pair %s: %w", way.Name, err)
	}
	port, err := netlink.LinkByName(pair.PeerName)
	if err != nil {
		return fmt.Errorf("%s: %w", pair.PeerName, err)
	}
	err = errors.Join(netlink.LinkSetMTU(port, l.cfg.MTU), netlink.LinkSetMaster(port, hub), netlink.LinkSetUp(port), netlink.LinkSetUp(pair))
	if err != nil {
		return fmt.Errorf("joining %s to %s: %w", way.Name, bridgeName, err)
	}
	return nil
}

// Cut makes the links as the cuts of active, all at once, have them, whatever
// their times are; without any the links are whole. It takes a Bridge, and
// for an MTUDrop Config.Narrow. While a job runs that has cuts of its own, these
// change the links too.
func (l *Lab) Cut(active ...Cut) error {
	for _, c := range active {
		if err := c.check(l.cfg); err != nil {
			return err
		}
		if l.cfg.Topology != Bridge || c.Kind == MTUDrop && !l.cfg.Narrow {
			return fmt.Errorf("lab: %v %v: the lab was not made for it: it takes topology bridge, and for an MTU Config.Narrow", c.Kind, c)
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
		return fmt.Errorf("lab: cutting links: %w", err)
	}
	return nil
}

// wanted returns the state in which all of active hold: ranks meet where no
// partition parts them, and the lowest MTU counts.
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

// rewire changes what is not as wanted, in the hub's namespace, which the calling
// thread is in.
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

// moveTo puts a host's port on another bridge, which it makes if it has to.
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

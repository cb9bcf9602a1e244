package lab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// wires is the state of the links behind the ranks' interfaces, which cuts change.
// In the hub's namespace each rank has a port on a bridge:
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
	down   []bool   // by rank: without carrier
	island []string // by rank: the bridge that its port is on
	mtu    int      // of the narrow pairs
}

func newWires(cfg Config) wires {
	w := wires{down: make([]bool, cfg.N), island: make([]string, cfg.N), mtu: cfg.MTU}
	for rank := range w.island {
		w.island[rank] = bridgeName
	}
	return w
}

func edgeName(rank int) string { return fmt.Sprintf("edge%d", rank) }
func wayName(rank int) string  { return fmt.Sprintf("way%d", rank) }

// hubPort returns the name of rank's port on the hub.
func (c Config) hubPort(rank int) string {
	if c.Narrow {
		return fmt.Sprintf("port%d", rank)
	}
	return portName(rank)
}

// addNarrow joins rank's edge, to which its veth belongs, to the hub. It is called
// in the hub's namespace.
func (l *Lab) addNarrow(rank int, edge, hub *netlink.Bridge) error {
	way := l.attrs(wayName(rank))
	way.MasterIndex = edge.Index
	pair := netlink.NewVeth(way)
	pair.PeerName = l.cfg.hubPort(rank)
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
		if err := c.check(l.cfg.N, l.cfg.MTU); err != nil {
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
	parts := make([]string, l.cfg.N) // by rank: its group in each partition
	for _, c := range active {
		for rank := range l.cfg.N {
			switch {
			case c.Kind == Flap && c.group(rank) == 0:
				w.down[rank] = true
			case c.Kind == Partition:
				parts[rank] += fmt.Sprintf("/%d", c.group(rank))
			}
		}
		if c.Kind == MTUDrop {
			w.mtu = min(w.mtu, c.MTU)
		}
	}
	islands := map[string]string{parts[0]: bridgeName}
	for rank, part := range parts {
		if _, known := islands[part]; !known {
			islands[part] = fmt.Sprintf("%s%d", bridgeName, len(islands))
		}
		w.island[rank] = islands[part]
	}
	return w
}

// rewire changes what is not as wanted, in the hub's namespace, which the calling
// thread is in.
func (l *Lab) rewire(want wires) error {
	have := &l.wires
	for rank := range l.cfg.N {
		if want.down[rank] != have.down[rank] {
			set := netlink.LinkSetUp
			if want.down[rank] {
				set = netlink.LinkSetDown
			}
			if err := change(portName(rank), set); err != nil {
				return err
			}
			have.down[rank] = want.down[rank]
		}
		if want.mtu != have.mtu {
			narrow := func(link netlink.Link) error { return netlink.LinkSetMTU(link, want.mtu) }
			if err := errors.Join(change(wayName(rank), narrow), change(l.cfg.hubPort(rank), narrow)); err != nil {
				return err
			}
		}
		if want.island[rank] != have.island[rank] {
			if err := l.moveTo(want.island[rank], rank); err != nil {
				return err
			}
			have.island[rank] = want.island[rank]
		}
	}
	have.mtu = want.mtu
	return nil
}

// moveTo puts rank's port on another bridge, which it makes if it has to.
func (l *Lab) moveTo(island string, rank int) error {
	bridge, err := netlink.LinkByName(island)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		bridge, err = l.newBridge(island)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", island, err)
	}
	return change(l.cfg.hubPort(rank), func(port netlink.Link) error { return netlink.LinkSetMaster(port, bridge) })
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

package mapper

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Host is a host of a fabric in virtual time: an Agent, and a card without a control program that
// sends and receives packets. Only the driver of the fabric's world may use it.
type Host struct {
	Agent *Agent
	Port  *myrinet.Port

	// Deliver receives intact packets of other types. The payload belongs to the fabric after the
	// call. nil drops them.
	Deliver func(typ uint16, payload []byte)

	// Routed is called when the routes have changed. It may be nil.
	Routed func()

	world  myrinet.World
	routes map[ethertype.MAC]myrinet.Route
	queue  [][]byte
	down   bool
	armed  int64 // time of its event, 0 for none
	wake   func()
	stats  HostStats
}

// HostStats counts packets of a Host.
type HostStats struct {
	Sent      uint64 // by Send
	Delivered uint64
	NoRoute   uint64 // dropped: Send had no route to the host
	QueueFull uint64 // dropped: Send found maxQueue packets waiting
	Truncated uint64 // dropped: arrived cut short
	CRCErrors uint64 // dropped: arrived with a CRC-8 that does not match
	Misrouted uint64 // dropped: arrived with route left
	Down      uint64 // dropped: the host is down
}

// maxQueue limits the packets that wait to be sent.
const maxQueue = 256

// NewHost returns a host. Its agent writes routes to it. Call Attach to plug it in.
func NewHost(w myrinet.World, opts myrinet.MapperOptions) (*Host, error) {
	h := &Host{world: w}
	h.wake = h.onWake
	var err error
	h.Agent, err = New(w.Now(), opts, h)
	return h, err
}

// Attach plugs the host into a port, and starts it.
func (h *Host) Attach(p *myrinet.Port) {
	h.Port = p
	h.pump()
}

// SetRoutes implements RouteTable.
func (h *Host) SetRoutes(routes []myrinet.HostRoute) {
	h.routes = make(map[ethertype.MAC]myrinet.Route, len(routes))
	for _, e := range routes {
		h.routes[e.To] = e.Turns
	}
	if h.Routed != nil {
		h.Routed()
	}
}

// Send queues a packet to a host. If it cannot, it counts the reason and returns false.
func (h *Host) Send(to ethertype.MAC, typ uint16, payload []byte) bool {
	route, ok := h.routes[to]
	switch {
	case h.down:
		h.stats.Down++
	case !ok:
		h.stats.NoRoute++
	case len(h.queue) >= maxQueue:
		h.stats.QueueFull++
	default:
		h.stats.Sent++
		h.queue = append(h.queue, hardware.AppendPacket(nil, route, typ, payload))
		h.pump()
		return true
	}
	return false
}

// Stop makes the host fail: it accepts packets and does nothing.
func (h *Host) Stop() { h.down, h.queue = true, nil }

// Start restarts a host after Stop, with a new agent and without routes.
func (h *Host) Start(opts myrinet.MapperOptions) error {
	a, err := New(h.world.Now(), opts, h)
	if err != nil {
		return err
	}
	h.Agent, h.down = a, false
	h.SetRoutes(nil)
	h.pump()
	return nil
}

// Down reports whether the host was stopped.
func (h *Host) Down() bool { return h.down }

// Stats returns a snapshot of the counters.
func (h *Host) Stats() HostStats { return h.stats }

// Room implements myrinet.Host.
func (h *Host) Room(int) bool { return true }

// Sent implements myrinet.Host.
func (h *Host) Sent() { h.pump() }

// Arrived implements myrinet.Host.
func (h *Host) Arrived(packet []byte, whole bool) {
	typ, payload, err := hardware.ParsePacket(packet)
	switch {
	case h.down:
		h.stats.Down++
	case !whole:
		h.stats.Truncated++
	case err == hardware.ErrCRC: //nolint:errorlint // ParsePacket wraps nothing
		h.stats.CRCErrors++
	case err != nil:
		h.stats.Misrouted++
	case typ == PacketType:
		h.Agent.Receive(h.world.Now(), payload)
		h.pump()
	default:
		h.stats.Delivered++
		if h.Deliver != nil {
			h.Deliver(typ, payload)
		}
	}
}

func (h *Host) onWake() {
	if h.armed != h.world.Now() {
		return // an earlier event has replaced this one
	}
	h.armed = 0
	h.pump()
}

// pump sends what the card can accept, and schedules the next call of the agent.
func (h *Host) pump() {
	if h.down || h.Port == nil {
		return
	}
	now := h.world.Now()
	if now >= h.Agent.Next() {
		h.Agent.Poll(now)
	}
	for !h.Port.Sending() {
		if p := h.Agent.Packet(now); p != nil {
			if !h.Port.Send(p) {
				break
			}
		} else if len(h.queue) > 0 {
			if !h.Port.Send(h.queue[0]) {
				break
			}
			h.queue = h.queue[1:]
		} else {
			break
		}
	}
	if at := h.Agent.Next(); h.armed == 0 || at < h.armed {
		h.armed = max(at, now)
		h.world.At(h.armed, h.wake)
	}
}

// Network is a topology in virtual time, with a Host at each card.
type Network struct {
	Topology *topology.Topology
	Fabric   *myrinet.Fabric
	Built    *topology.Built
	Hosts    []*Host
}

// NewNetwork builds the network of a topology. options returns the options of each host's agent;
// HostID may provide their identities.
func NewNetwork(w myrinet.World, f *myrinet.Fabric, t *topology.Topology, options func(i int) myrinet.MapperOptions) (*Network, error) {
	n := &Network{Topology: t, Fabric: f}
	for i := range t.Hosts {
		h, err := NewHost(w, options(i))
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", t.Hosts[i], err)
		}
		n.Hosts = append(n.Hosts, h)
	}
	var err error
	n.Built, err = topology.Build(f, t, func(i int) myrinet.Host { return n.Hosts[i] })
	if err != nil {
		return nil, err
	}
	for i, h := range n.Hosts {
		h.Attach(n.Built.Hosts[i])
	}
	return n, nil
}

// HostID returns a locally administered identity for host i of a network.
func HostID(i int) ethertype.MAC {
	return ethertype.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}
}

// Leaders returns the indices of the hosts that map.
func (n *Network) Leaders() (leaders []int) {
	for i, h := range n.Hosts {
		if !h.down && h.Agent.isLeading {
			leaders = append(leaders, i)
		}
	}
	return leaders
}

// Tables returns the current routes, by the indices of the topology. Routes to hosts outside the
// topology are omitted.
func (n *Network) Tables() Tables {
	index := map[ethertype.MAC]int{}
	for i, h := range n.Hosts {
		index[h.Agent.opts.ID] = i
	}
	tables := make(Tables, len(n.Hosts))
	for i, h := range n.Hosts {
		tables[i] = make([]myrinet.Route, len(n.Hosts))
		for id, route := range h.routes {
			if k, ok := index[id]; ok && !h.down {
				tables[i][k] = route
			}
		}
	}
	return tables
}

// Mapped returns the map of host i if it leads and all hosts on its map have their routes, and nil
// otherwise.
func (n *Network) Mapped(i int) *Map {
	a := n.Hosts[i].Agent
	if !a.isLeading || a.lead.last == nil || a.lead.stage != resting {
		return nil
	}
	has := map[ethertype.MAC]uint64{}
	for _, h := range n.Hosts {
		has[h.Agent.opts.ID] = h.Agent.digest
	}
	for k, id := range a.lead.last.IDs {
		if has[id] != digest(a.lead.plan.entries[k]) {
			return nil
		}
	}
	return a.lead.last
}

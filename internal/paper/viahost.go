package paper

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// viaNode is a host: a card and the processes that share the card.
type viaNode struct {
	card  *hardware.Card
	vis   []*viaVI         // in the order in which the card polls their send doorbells
	procs map[int]*viaHost // by rank
}

// viaHost is a process of a host, its VIs to processes of other hosts, and its completion queues.
// The process sleeps while its processor works.
type viaHost struct {
	w     *sim.World
	node  *viaNode
	rank  int
	wait  *sim.Waiter
	vis   [][]*viaVI // to each rank of another host
	queue [][]byte   // completions of receives: the messages
	done  []*viaVI   // completions of sends
}

// viaVI is a VI. It has a send doorbell, which is a register that holds one token until the card
// has taken the token. It also has a receive doorbell, whose state the card knows when a message
// arrives.
type viaVI struct {
	host          *viaHost
	route         myrinet.Route // to the other end
	descriptor    [viaDescriptor]byte
	sends         [][]byte
	used          int // send descriptors that the host has not taken back
	send, receive *hardware.Page
	rung          bool
}

// A message begins with the number of its VI, its kind, its sender's rank and its receiver's rank.
// Two words follow. viaHead is the minimum length of a message.
const (
	viaHead = 12
	viaFrom = 2
	viaTo   = 3
)

// take returns the message that was posted first.
func (v *viaVI) take() []byte {
	m := v.sends[0]
	v.sends = v.sends[1:]
	return m
}

// viaCluster creates hosts for procs processes, with perNode processes on each. It opens VIs
// between all processes on different hosts. A cable joins two hosts; a switch joins more than two.
func viaCluster(w *sim.World, m *viaModel, vis, procs, perNode int) ([]*viaHost, error) {
	nodes := (procs + perNode - 1) / perNode
	options := m.fabric
	options.Seed, options.Ports = 1, max(2, nodes)
	f, err := myrinet.New(w, options)
	if err != nil {
		return nil, err
	}
	route := func(int, int) myrinet.Route { return nil }
	var crossbar *myrinet.Switch
	if nodes > 2 {
		crossbar = f.Switch("switch")
		route = func(from, to int) myrinet.Route { return myrinet.Route{int8(to - from)} }
	}
	var hosts []*viaHost
	var ports []*myrinet.Port
	for i := range nodes {
		n := &viaNode{procs: map[int]*viaHost{}}
		if n.card, err = hardware.NewCard(w, myrinet.CardConfig{Timing: m.timing, SRAM: 1 << 20, PageSize: 64}); err != nil {
			return nil, err
		}
		for range min(perNode, procs-i*perNode) {
			h := &viaHost{w: w, node: n, rank: len(hosts), wait: w.Waiter(), vis: make([][]*viaVI, procs)}
			n.procs[h.rank] = h
			hosts = append(hosts, h)
			if err := h.createVIs(vis, func(to int) (bool, myrinet.Route) { return to/perNode != i, route(i, to/perNode) }); err != nil {
				return nil, err
			}
		}
		port := f.Host(fmt.Sprint("host ", i), n.card)
		ports = append(ports, port)
		if err := errors.Join(n.card.Plug(port), n.card.Load(&viaProgram{node: n, costs: m.costs, clock: m.timing.Clock})); err != nil {
			return nil, err
		}
		if crossbar != nil {
			if _, err := f.Join(port, crossbar.Port(i)); err != nil {
				return nil, err
			}
		}
	}
	if nodes == 2 {
		_, err = f.Join(ports[0], ports[1])
	}
	return hosts, err
}

// createVIs creates a number of VIs to each rank to which path has a route.
func (h *viaHost) createVIs(vis int, path func(to int) (bool, myrinet.Route)) error {
	for to := range h.vis {
		is, route := path(to)
		if !is {
			continue
		}
		for n := range vis {
			send, err := h.node.card.OpenPage(fmt.Sprintf("sends of VI %d of %d to %d", n, h.rank, to))
			receive, err2 := h.node.card.OpenPage(fmt.Sprintf("receives of VI %d of %d to %d", n, h.rank, to))
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			vi := &viaVI{host: h, route: route, send: send, receive: receive}
			h.node.vis = append(h.node.vis, vi)
			h.vis[to] = append(h.vis[to], vi)
		}
	}
	return nil
}

// answer takes the token of the send doorbell.
func (v *viaVI) answer() {
	v.rung = false
	v.host.wait.Wake()
}

// complete adds an entry to the process's completion queue of sends.
func (v *viaVI) complete() {
	v.host.done = append(v.host.done, v)
	v.host.wait.Wake()
}

// complete adds an entry to the completion queue of receives of the process to which a message is
// addressed.
func (n *viaNode) complete(message []byte) {
	h := n.procs[int(message[viaTo])]
	h.queue = append(h.queue, message)
	h.wait.Wake()
}

// works keeps the processor busy for d, plus the cost of its accesses to the card so far.
func (h *viaHost) works(d time.Duration) error {
	if d += time.Duration(h.node.card.TakeDebt()); d == 0 {
		return nil
	}
	return h.w.Sleep(d)
}

// sleep waits until the card has done something.
func (h *viaHost) sleep() error { return h.wait.Wait(transport.Forever) }

// post posts a send. It first waits until the card has taken the previous token.
func (h *viaHost) post(v *viaVI, m []byte) error {
	for v.rung {
		if err := h.sleep(); err != nil {
			return err
		}
	}
	v.sends = append(v.sends, m)
	v.used++
	v.rung = true
	v.send.Ring()
	return h.works(0)
}

// repost posts a receive again.
func (h *viaHost) repost(v *viaVI) error {
	if err := v.receive.Write(0, make([]byte, 4)); err != nil {
		return err
	}
	return h.works(0)
}

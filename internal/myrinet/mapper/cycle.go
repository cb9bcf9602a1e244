package mapper

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// ErrCycle is wrapped by the error of Deadlocks.
var ErrCycle = errors.New("mapper: packets on these routes can deadlock")

// walker follows routes through a topology.
type walker struct {
	t    *topology.Topology
	next map[topology.Plug]int // cable at each plug
}

func newWalker(t *topology.Topology) *walker {
	w := &walker{t: t, next: map[topology.Plug]int{}}
	for i, c := range t.Cables {
		w.next[c.A], w.next[c.B] = i, i
	}
	return w
}

// leave returns the link that leaves by a plug, and the plug where it ends. A link is one direction
// of a cable.
func (w *walker) leave(p topology.Plug) (link int, end topology.Plug, ok bool) {
	i, ok := w.next[p]
	switch {
	case !ok:
		return 0, p, false
	case w.t.Cables[i].A == p:
		return 2 * i, w.t.Cables[i].B, true
	}
	return 2*i + 1, w.t.Cables[i].A, true
}

// walk returns the links that a packet from a host passes, and the host at its end. If the route
// does not end at a host, to is -1 and links contains the valid part.
func (w *walker) walk(host int, route myrinet.Route) (links []int, to int) {
	link, at, ok := w.leave(topology.AtHost(host))
	if !ok {
		return nil, -1
	}
	links = append(links, link)
	for _, turn := range route {
		if at.Host {
			return links, -1
		}
		if link, at, ok = w.leave(topology.AtSwitch(at.Node, at.Port+int(turn))); !ok {
			return links, -1
		}
		links = append(links, link)
	}
	if !at.Host {
		return links, -1
	}
	return links, at.Node
}

// Walk returns the host at which a packet from a host arrives, -1 for none, and the cables that it
// passes. All are indices of the topology.
func Walk(t *topology.Topology, host int, route myrinet.Route) (to int, cables []int) {
	links, to := newWalker(t).walk(host, route)
	for i := range links {
		links[i] /= 2
	}
	return to, links
}

// Deadlocks returns an error that wraps ErrCycle and names the cables if packets on these routes
// can deadlock. That is the case if the dependency graph has a cycle: a link depends on each link
// that follows it on some route. Routes that end nowhere count up to their end.
func Deadlocks(t *topology.Topology, tables ...Tables) error {
	w := newWalker(t)
	g := make(dependencies, 2*len(t.Cables))
	for _, table := range tables {
		for from, routes := range table {
			for _, route := range routes {
				if route == nil {
					continue
				}
				links, _ := w.walk(from, route)
				for i := 1; i < len(links); i++ {
					g.add(links[i-1], links[i])
				}
			}
		}
	}
	ring := g.cycle()
	if ring == nil {
		return nil
	}
	var names []string
	for _, link := range ring {
		c := t.Cables[link/2]
		if link%2 == 1 {
			c.A, c.B = c.B, c.A
		}
		names = append(names, t.Name(c.A)+" to "+t.Name(c.B))
	}
	return fmt.Errorf("%w: %s", ErrCycle, strings.Join(names, "; "))
}

// dependencies holds, for each link, the links that a packet on it may wait for.
type dependencies []map[int]bool

func (g dependencies) add(from, to int) {
	if g[from] == nil {
		g[from] = map[int]bool{}
	}
	g[from][to] = true
}

// cycle returns the links of a cycle, or nil. It repeatedly removes links that depend on no
// remaining link.
func (g dependencies) cycle() []int {
	waits := make([]int, len(g)) // number of remaining links that it depends on
	back := make([][]int, len(g))
	var free []int
	for from := range g {
		waits[from] = len(g[from])
		if waits[from] == 0 {
			free = append(free, from)
		}
		for to := range g[from] {
			back[to] = append(back[to], from)
		}
	}
	left := len(g)
	for ; len(free) > 0; free = free[1:] {
		left--
		for _, from := range back[free[0]] {
			if waits[from]--; waits[from] == 0 {
				free = append(free, from)
			}
		}
	}
	if left == 0 {
		return nil
	}
	return g.follow(waits)
}

// follow follows dependencies between the remaining links until it returns to one, and returns that
// ring.
func (g dependencies) follow(waits []int) (ring []int) {
	at := 0
	for waits[at] == 0 {
		at++
	}
	place := map[int]int{}
	for {
		if i, seen := place[at]; seen {
			return ring[i:]
		}
		place[at] = len(ring)
		ring = append(ring, at)
		least := -1
		for to := range g[at] {
			if waits[to] > 0 && (least < 0 || to < least) {
				least = to
			}
		}
		at = least
	}
}

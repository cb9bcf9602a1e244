package mapper

import (
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Tables are routes between all pairs of hosts, by the indices of source and target. A
// pair without a path has none; two hosts on one cable have one without turns.
type Tables [][]myrinet.Route

// Routes returns a route for each pair of hosts that has a path. Packets that take them
// cannot deadlock: a route goes up towards a root and then down, never up again
// (up*/down*), so that no ring of links waits for itself. Of all such routes it is one
// with the fewest switches, and of several of these the one with the least used links.
// The result depends on the topology only.
func Routes(t *myrinet.Topology) Tables {
	r := newRouter(t)
	tables := make(Tables, len(t.Hosts))
	for i := range tables {
		tables[i] = make([]myrinet.Route, len(t.Hosts))
	}
	order := rand.New(rand.NewPCG(0, 0)) // of the sources, so that the choice of a cable has nothing to do with the distance between two hosts' numbers
	for to, at := range r.homes {
		if at.Node < 0 {
			continue
		}
		if at.Host {
			tables[at.Node][to] = myrinet.Route{}
			continue
		}
		r.measure(at.Node)
		for _, from := range order.Perm(len(r.homes)) {
			if home := r.homes[from]; from != to && home.Node >= 0 && !home.Host {
				tables[from][to] = r.route(home, at)
			}
		}
	}
	return tables
}

// router finds the routes to one host after the other.
type router struct {
	next  [][]myrinet.Plug // what is plugged into each switch's ports
	homes []myrinet.Plug   // where each host is plugged in; Node is -1 for nowhere
	rank  []int            // of each switch: up leads to a lower one
	load  [][]int          // routes by each port, outward
	left  [2][]int         // switches left to the target, from a switch where the packet may go up, or may not; -1 for no way
}

const (
	mayRise = iota
	mayNot
)

func newRouter(t *myrinet.Topology) *router {
	r := &router{next: t.Neighbors(), homes: make([]myrinet.Plug, len(t.Hosts)), rank: make([]int, len(t.Switches))}
	for i := range r.homes {
		r.homes[i].Node = -1
	}
	for _, c := range t.Cables {
		if c.A.Host {
			r.homes[c.A.Node] = c.B
		}
		if c.B.Host {
			r.homes[c.B.Node] = c.A
		}
	}
	for range t.Switches {
		r.load = append(r.load, make([]int, t.Ports))
	}
	for i := range r.left {
		r.left[i] = make([]int, len(t.Switches))
	}
	r.rankAll()
	return r
}

// rankAll orders the switches of each part of the network by how far they are from its
// root, the one that is nearest to all hosts.
func (r *router) rankAll() {
	done := make([]bool, len(r.next))
	place := 0
	for s := range r.next {
		if done[s] {
			continue
		}
		part := r.breadthFirst(s)
		for _, q := range r.breadthFirst(r.root(part)) {
			done[q] = true
			r.rank[q] = place
			place++
		}
	}
}

// breadthFirst returns the switches that can be reached, nearest first.
func (r *router) breadthFirst(from int) []int {
	seen := map[int]bool{from: true}
	found := []int{from}
	for i := 0; i < len(found); i++ {
		for _, n := range r.next[found[i]] {
			if !n.Host && n.Node >= 0 && !seen[n.Node] {
				seen[n.Node] = true
				found = append(found, n.Node)
			}
		}
	}
	return found
}

// root returns the switch of the part for which the sum of the distances to all hosts is
// the least.
func (r *router) root(part []int) int {
	best, least := part[0], -1
	for _, s := range part {
		distance := map[int]int{s: 0}
		sum := 0
		for _, q := range r.breadthFirst(s) {
			for _, n := range r.next[q] {
				if n.Host {
					sum += distance[q]
				} else if _, seen := distance[n.Node]; n.Node >= 0 && !seen {
					distance[n.Node] = distance[q] + 1
				}
			}
		}
		if least < 0 || sum < least || sum == least && s < best {
			best, least = s, sum
		}
	}
	return best
}

// measure fills left for the target switch, backwards from it.
func (r *router) measure(target int) {
	type state struct{ sw, phase int }
	for _, left := range r.left {
		for i := range left {
			left[i] = -1
		}
	}
	r.left[mayRise][target], r.left[mayNot][target] = 0, 0
	for queue := []state{{target, mayRise}, {target, mayNot}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for _, n := range r.next[s.sw] {
			if n.Host || n.Node < 0 || n.Node == s.sw {
				continue
			}
			for before := mayRise; before <= mayNot; before++ {
				after, ok := r.passes(n.Node, s.sw, before)
				if ok && after == s.phase && r.left[before][n.Node] < 0 {
					r.left[before][n.Node] = r.left[s.phase][s.sw] + 1
					queue = append(queue, state{n.Node, before})
				}
			}
		}
	}
}

// passes reports whether a packet may go from one switch to the next, and whether it may
// rise afterwards.
func (r *router) passes(from, to, phase int) (after int, ok bool) {
	if r.rank[to] > r.rank[from] {
		return mayNot, true
	}
	return mayRise, phase == mayRise
}

// route returns the route from one host's port to another one's, to whose switch measure
// has measured.
func (r *router) route(from, to myrinet.Plug) myrinet.Route {
	if r.left[mayRise][from.Node] < 0 {
		return nil
	}
	route := myrinet.Route{}
	in, phase := from, mayRise
	for in.Node != to.Node {
		out, after := r.choose(in.Node, phase)
		r.load[in.Node][out]++
		route = append(route, int8(out-in.Port))
		in, phase = r.next[in.Node][out], after
	}
	return append(route, int8(to.Port-in.Port))
}

// choose returns the least used port among those that lead nearer to the target.
func (r *router) choose(sw, phase int) (port, after int) {
	port = -1
	for p, n := range r.next[sw] {
		if n.Host || n.Node < 0 {
			continue
		}
		then, ok := r.passes(sw, n.Node, phase)
		if ok && r.left[then][n.Node] >= 0 && r.left[then][n.Node] == r.left[phase][sw]-1 && (port < 0 || r.load[sw][p] < r.load[sw][port]) {
			port, after = p, then
		}
	}
	return port, after
}

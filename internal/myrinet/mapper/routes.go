package mapper

import (
	"cmp"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Tables holds routes between all pairs of hosts, by the indices of source and target. A pair
// without a path has nil; two hosts on one cable have a route without turns.
type Tables [][]myrinet.Route

// Routes returns a route for each pair of hosts that has a path. Packets on these routes cannot
// deadlock, because they take only turns that newTurns permits. Among the permitted routes it
// chooses one with the fewest switches, and among these the one whose most used link has the fewest
// routes. The result depends only on the topology.
func Routes(t *topology.Topology) Tables {
	r := newRouter(t)
	tables := make(Tables, len(t.Hosts))
	for i := range tables {
		tables[i] = make([]myrinet.Route, len(t.Hosts))
	}
	order := rand.New(rand.NewPCG(0, 0)) // shuffles the sources, so that the choice of a cable does not depend on the difference of two hosts' indices
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

// Load returns the number of routes that pass each cable in each direction; the direction from
// Join.A is first.
func Load(t *topology.Topology, tables Tables) [][2]int {
	w := newWalker(t)
	load := make([][2]int, len(t.Cables))
	for from, routes := range tables {
		for _, route := range routes {
			if route == nil {
				continue
			}
			links, _ := w.walk(from, route)
			for _, link := range links {
				load[link/2][link%2]++
			}
		}
	}
	return load
}

// router computes the routes, one target host at a time.
type router struct {
	turns
	homes []topology.Plug // where each host is plugged in; Node is -1 if nowhere
	load  []int           // number of routes on each link
	left  []int           // by link: switches from its end to the target, -1 if unreachable

	// The best continuation from a link to the target: the load of its most used link, the sum of
	// its loads, both including the link itself, and the next link. They are valid for the route
	// with the number known.
	worst, sum, then, known []int
	routes                  int
}

func newRouter(t *topology.Topology) *router {
	r := &router{turns: newTurns(t), homes: make([]topology.Plug, len(t.Hosts))}
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
	for _, list := range []*[]int{&r.load, &r.left, &r.worst, &r.sum, &r.then, &r.known} {
		*list = make([]int, len(r.may))
	}
	return r
}

// measure computes left for the target switch, backwards from it.
func (r *router) measure(target int) {
	for i := range r.left {
		r.left[i] = -1
	}
	var queue []int
	for link := range r.into(target) {
		r.left[link] = 0
		queue = append(queue, link)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for before := range r.before(queue[0]) {
			if r.left[before] < 0 {
				r.left[before] = r.left[queue[0]] + 1
				queue = append(queue, before)
			}
		}
	}
}

// route returns the route between two hosts' ports. measure must have been called for the switch of
// the second one.
func (r *router) route(from, to topology.Plug) myrinet.Route {
	route, in := myrinet.Route{}, from
	if from.Node != to.Node {
		r.routes++
		link := r.choose(from.Node, everyPort)
		for ; link >= 0; link = r.then[link] {
			r.load[link]++
			route = append(route, int8(link%r.ports-in.Port))
			in = r.end(link)
		}
		if in == from {
			return nil
		}
	}
	return append(route, int8(to.Port-in.Port))
}

// choose returns the link by which a packet leaves a switch, -1 for none. Among the permitted links
// that are nearest to the target, it is the one whose continuation has the least used links.
func (r *router) choose(sw int, may uint32) (best int) {
	best = -1
	for port := range r.ports {
		link := r.link(sw, port)
		if may>>port&1 == 0 || r.left[link] < 0 || best >= 0 && r.left[link] > r.left[best] {
			continue
		}
		r.follow(link)
		if best < 0 || cmp.Or(cmp.Compare(r.left[link], r.left[best]), cmp.Compare(r.worst[link], r.worst[best]), cmp.Compare(r.sum[link], r.sum[best])) < 0 {
			best = link
		}
	}
	return best
}

// follow computes the best continuation from a link.
func (r *router) follow(link int) {
	if r.known[link] == r.routes {
		return
	}
	r.known[link], r.then[link], r.worst[link], r.sum[link] = r.routes, -1, r.load[link], r.load[link]
	if r.left[link] > 0 {
		then := r.choose(r.end(link).Node, r.may[link])
		r.then[link] = then
		r.worst[link] = max(r.worst[link], r.worst[then])
		r.sum[link] += r.sum[then]
	}
}

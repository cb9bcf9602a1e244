package mapper

import (
	"cmp"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Tables are routes between all pairs of hosts, by the indices of source and target. A
// pair without a path has none; two hosts on one cable have one without turns.
type Tables [][]myrinet.Route

// Routes returns a route for each pair of hosts that has a path. Packets on these routes
// cannot deadlock: they take only turns that newTurns
// permits. Of all such routes, it is one with the fewest switches, and of
// several of these the one whose most used link has the fewest routes. The result depends on the topology only.
func Routes(t *topology.Topology) Tables {
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

// Load returns how many routes pass each cable in each direction, the direction from Join.A
// first.
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

// router finds the routes to one host after the other.
type router struct {
	turns
	homes []topology.Plug // where each host is plugged in; Node is -1 for nowhere
	load  []int           // routes by each link
	left  []int           // by link: switches from its end to the target, -1 for no way

	// The way on from a link to the target: how often its most used link is used, and all of them
	// together, the link itself among them, and the link that follows. They are those of the
	// route with the number known.
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

// measure fills left for the target switch, backwards from it.
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

// route returns the route from one host's port to another one's, to whose switch measure
// has measured.
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

// choose returns the link by which a packet leaves a switch: of those that it may take, and that
// are nearest to the target, the one whose way on has the least used links. It returns -1 for none.
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

// follow finds the way on from a link.
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

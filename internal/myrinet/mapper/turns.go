package mapper

import (
	"cmp"
	"iter"
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// turns determines which turns from one link to the next routes may take. A link is one direction
// of a cable between two switches. Links of hosts do not count, because packets only begin or end
// there.
//
// Packets cannot deadlock if no ring of links exists in which each link leads to the next one by a
// permitted turn (Dally and Seitz, 1987). So all links are in an order, and every permitted turn
// leads from a link to a later one. First the turns of a tree are permitted; they join all hosts
// and cannot close a ring. The others follow, those on the shortest paths of the most pairs of
// hosts first. A turn that would close a ring is omitted. In a fat tree no turn of a shortest path
// is omitted, so routes use all of its spines. Up*/down* routes with one root would use the cables
// of one spine.
type turns struct {
	next  [][]topology.Plug // neighbours at each switch's ports
	ports int               // of a switch
	place []int             // position of each link in the order
	may   []uint32          // by link: the permitted output ports of the switch at its end
}

const everyPort = ^uint32(0)

// turn leads from a link to a port of the switch at its end.
type turn struct{ link, port, weight int }

func newTurns(t *topology.Topology) turns {
	x := turns{next: t.Neighbors(), ports: t.Ports}
	x.place, x.may = make([]int, len(t.Switches)*t.Ports), make([]uint32, len(t.Switches)*t.Ports)
	for i := range x.place {
		x.place[i] = i
	}
	x.permitTrees()
	for _, turn := range x.byWeight() {
		x.permit(turn.link, turn.port)
	}
	return x
}

// link returns the number of the link that leaves a switch by a port.
func (x *turns) link(sw, port int) int { return sw*x.ports + port }

// end returns the plug at the end of a link.
func (x *turns) end(link int) topology.Plug { return x.next[link/x.ports][link%x.ports] }

// joins reports whether a link leads to another switch.
func (x *turns) joins(link int) bool {
	end := x.end(link)
	return !end.Host && end.Node >= 0 && end.Node != link/x.ports
}

// into yields the links that lead to a switch.
func (x *turns) into(sw int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for port := range x.next[sw] {
			if n := x.next[sw][port]; x.joins(x.link(sw, port)) && !yield(x.link(n.Node, n.Port)) {
				return
			}
		}
	}
}

// before yields the links from which a permitted turn leads to a link.
func (x *turns) before(link int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for before := range x.into(link / x.ports) {
			if x.may[before]>>(link%x.ports)&1 != 0 && !yield(before) {
				return
			}
		}
	}
}

// after yields the links to which a permitted turn leads from a link.
func (x *turns) after(link int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for port := range x.ports {
			if x.may[link]>>port&1 != 0 && !yield(x.link(x.end(link).Node, port)) {
				return
			}
		}
	}
}

// permit permits a turn, unless it would close a ring. If the links of the turn are in the wrong
// order, it reorders as few links as necessary (Pearce and Kelly, 2006).
func (x *turns) permit(link, port int) {
	to := x.link(x.end(link).Node, port)
	if low, high := x.place[to], x.place[link]; low < high {
		behind, ring := x.reach(to, x.after, func(l int) bool { return x.place[l] <= high }, link)
		if ring {
			return
		}
		ahead, _ := x.reach(link, x.before, func(l int) bool { return x.place[l] >= low }, -1)
		x.reorder(append(ahead, behind...))
	}
	x.may[link] |= 1 << port
}

// reach returns the links that can be reached from a link by steps within bounds, in their order.
// is reports whether goal is one of them.
func (x *turns) reach(from int, step func(int) iter.Seq[int], within func(int) bool, goal int) (found []int, is bool) {
	seen := map[int]bool{from: true}
	found = []int{from}
	for i := 0; i < len(found); i++ {
		for l := range step(found[i]) {
			if l == goal {
				return nil, true
			}
			if !seen[l] && within(l) {
				seen[l] = true
				found = append(found, l)
			}
		}
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Compare(x.place[a], x.place[b]) })
	return found, false
}

// reorder assigns the positions of the given links to them in the order of the list.
func (x *turns) reorder(links []int) {
	places := make([]int, len(links))
	for i, l := range links {
		places[i] = x.place[l]
	}
	slices.Sort(places)
	for i, l := range links {
		x.place[l] = places[i]
	}
}

// breadthFirst returns the reachable switches, nearest first; the distance of each switch, -1 if
// unreachable; and the link by which it was reached first.
func (x *turns) breadthFirst(from int) (found, far, by []int) {
	far, by = slices.Repeat([]int{-1}, len(x.next)), make([]int, len(x.next))
	far[from] = 0
	found = []int{from}
	for i := 0; i < len(found); i++ {
		for port, n := range x.next[found[i]] {
			if link := x.link(found[i], port); x.joins(link) && far[n.Node] < 0 {
				far[n.Node], by[n.Node] = far[found[i]]+1, link
				found = append(found, n.Node)
			}
		}
	}
	return found, far, by
}

// hosts returns the number of hosts at a switch.
func (x *turns) hosts(sw int) (n int) {
	for _, p := range x.next[sw] {
		if p.Host {
			n++
		}
	}
	return n
}

// permitTrees permits the turns of a spanning tree in each connected part of the network: the
// shortest paths from the switch that is nearest to all hosts, without branches that lead to no
// host.
func (x *turns) permitTrees() {
	done := make([]bool, len(x.next))
	for s := range x.next {
		if done[s] {
			continue
		}
		part, _, _ := x.breadthFirst(s)
		for _, q := range part {
			done[q] = true
		}
		found, _, by := x.breadthFirst(x.root(part))
		tree := make([]uint32, len(x.next)) // by switch: its ports in the tree
		for i := len(found) - 1; i > 0; i-- {
			if q := found[i]; x.hosts(q) > 0 || tree[q] != 0 {
				tree[by[q]/x.ports] |= 1 << (by[q] % x.ports)
				tree[q] |= 1 << x.end(by[q]).Port
			}
		}
		for _, q := range found {
			for link := range x.into(q) {
				in := x.end(link).Port
				for port := range x.ports {
					if tree[q]>>in&1 != 0 && tree[q]>>port&1 != 0 && port != in {
						x.permit(link, port)
					}
				}
			}
		}
	}
}

// root returns the switch of the part with the smallest sum of distances to all hosts.
func (x *turns) root(part []int) int {
	best, least := part[0], -1
	for _, s := range part {
		sum := 0
		found, far, _ := x.breadthFirst(s)
		for _, q := range found {
			sum += far[q] * x.hosts(q)
		}
		if least < 0 || sum < least || sum == least && s < best {
			best, least = s, sum
		}
	}
	return best
}

// byWeight returns all turns between switches, those on the shortest paths of the most pairs of
// hosts first.
func (x *turns) byWeight() (list []turn) {
	weight := map[turn]int{}
	far := make([][]int, len(x.next))
	for s := range x.next {
		_, far[s], _ = x.breadthFirst(s)
	}
	for s := range x.next {
		if x.hosts(s) > 0 {
			x.weigh(s, far, weight)
		}
	}
	for sw := range x.next {
		for link := range x.into(sw) {
			for port := range x.ports {
				if t := (turn{link: link, port: port}); x.joins(x.link(sw, port)) && port != x.end(link).Port {
					t.weight = weight[t]
					list = append(list, t)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b turn) int { return cmp.Compare(b.weight, a.weight) })
	return list
}

// weigh adds the pairs of hosts whose first host is at switch s to the weights of the turns.
func (x *turns) weigh(s int, far [][]int, weight map[turn]int) {
	for sw := range x.next {
		if far[s][sw] < 2 {
			continue // the last turn of a packet from s cannot lead here
		}
		behind := 0 // hosts that have a shortest path from s through sw
		for d := range x.next {
			if far[s][d] >= 0 && far[s][sw]+far[sw][d] == far[s][d] {
				behind += x.hosts(d)
			}
		}
		for last := range x.into(sw) {
			at := last / x.ports
			if far[s][at] != far[s][sw]-1 {
				continue
			}
			for first := range x.into(at) {
				if far[s][first/x.ports] == far[s][at]-1 {
					weight[turn{link: first, port: last % x.ports}] += x.hosts(s) * behind
				}
			}
		}
	}
}

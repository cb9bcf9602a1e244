package mapper

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// exploration discovers the topology with probes. It works in steps, each of which adds requests;
// when all of them are done, the next step follows.
//
// Turns are relative, so a switch is identified by a route that leads to it, and its ports by their
// offset from the port at which that route enters. A probe "r 0 back(r)" comes back if r leads to a
// switch, and a probe along r is answered if r leads to a host. Let two routes r and q enter
// switches at different ports. "r t back(q)", where t is the distance of the two ports, comes back
// only if the switches are the same: a packet that follows back(q) to the mapper must have left the
// switch that q leads to, by the port at which q enters.
type exploration struct {
	req   *requests
	self  identity
	ports int
	most  int  // maximum number of switches
	asks  kind // ask or look

	switches []*foundSwitch
	hosts    []foundHost
	byID     map[ethertype.MAC]int
	open     []end // links whose other end is unknown, in the order of discovery
	cable    int   // index of the host at the other end of a cable without a switch, or -1
	step     func()

	broken  bool // the results contradict each other
	beyond  int  // links to switches that are too many or too far away
	twice   []ethertype.MAC
	tooMany int // hosts above MaxHosts
	digests map[ethertype.MAC]uint64
}

type identity struct {
	id   ethertype.MAC
	name string
}

type foundHost struct {
	identity
	at end
}

// end is a port of a switch.
type end struct{ sw, offset int }

type foundSwitch struct {
	ways  []way
	ports [2*crossbar.MaxPorts + 1]peer // by offset + MaxPorts
	low   int                           // lowest used offset
	high  int
}

// way is a route to a switch, which enters at the port with the offset.
type way struct {
	route  myrinet.Route
	offset int
}

type peerKind uint8

const (
	nothing peerKind = iota
	aHost
	aLink   // to an unknown switch
	aSwitch // to a port of a known switch
)

type peer struct {
	kind peerKind
	host int
	to   end
}

func (s *foundSwitch) at(offset int) *peer { return &s.ports[offset+crossbar.MaxPorts] }

func (s *foundSwitch) set(offset int, p peer) {
	*s.at(offset) = p
	s.low, s.high = min(s.low, offset), max(s.high, offset)
}

// way returns the route to use for a try; tries rotate over the known routes.
func (s *foundSwitch) way(try int) way { return s.ways[try%len(s.ways)] }

// through returns the route to the neighbour at an offset of the switch.
func (w way) through(offset int) myrinet.Route {
	return append(w.route[:len(w.route):len(w.route)], int8(offset-w.offset))
}

// loop returns a route that goes there, enters the switch of w at the port with the offset, and
// returns along w.
func loop(there myrinet.Route, offset int, w way) myrinet.Route {
	return append(append(there[:len(there):len(there)], int8(w.offset-offset)), w.route.Back()...)
}

func explore(req *requests, self identity, ports, most int, asks kind) *exploration {
	x := &exploration{req: req, self: self, ports: ports, most: most, asks: asks, cable: -1,
		byID: map[ethertype.MAC]int{}, digests: map[ethertype.MAC]uint64{}}
	x.step = x.first
	return x
}

// advance runs steps until there are requests to wait for. It reports whether the exploration has
// ended.
func (x *exploration) advance() (finished bool) {
	for x.req.idle() && x.step != nil && !x.broken {
		step := x.step
		x.step = nil
		step()
	}
	for _, s := range x.switches {
		x.broken = x.broken || s.high-s.low >= x.ports
	}
	if x.broken {
		x.req.cancel()
	}
	return x.req.idle()
}

// loops adds a probe along a route, and calls done with the result whether it came back.
func (x *exploration) loops(route func(try int) myrinet.Route, needed func() bool, done func(hit bool)) {
	x.req.add(&request{
		packet: func(try int) (myrinet.Route, message) { return route(try), message{kind: echo} },
		needed: needed, reply: echo,
		done: func(m *message) { done(m != nil) },
	})
}

// who adds a probe to the host at the end of the route, and calls found if it answers.
func (x *exploration) who(route myrinet.Route, needed func() bool, found func(m *message)) {
	x.req.add(&request{
		packet: func(int) (myrinet.Route, message) { return route, message{kind: x.asks, back: route.Back()} },
		needed: needed, reply: answer,
		done: func(m *message) {
			if m != nil {
				found(m)
			}
		},
	})
}

// first probes the other end of the mapper's own cable.
func (x *exploration) first() {
	x.addHost(x.self, end{-1, 0})
	x.loops(func(int) myrinet.Route { return myrinet.Route{0} }, nil, func(hit bool) {
		if !hit {
			return
		}
		x.hosts[0].at = end{}
		x.newSwitch(way{}, peer{kind: aHost})
	})
	x.who(myrinet.Route{}, func() bool { return len(x.switches) == 0 }, func(m *message) {
		if m.host != x.self.id && len(x.switches) == 0 {
			x.cable = x.addHost(identity{m.host, m.name}, end{-1, 0})
			x.digests[m.host] = m.digest
		} else if m.host == x.self.id {
			x.twice = append(x.twice, m.host)
		}
	})
	x.step = func() {
		if len(x.switches) > 0 {
			x.scan(0)
		}
	}
}

func (x *exploration) addHost(i identity, at end) int {
	x.byID[i.id] = len(x.hosts)
	x.hosts = append(x.hosts, foundHost{i, at})
	return len(x.hosts) - 1
}

func (x *exploration) newSwitch(w way, behind peer) int {
	s := &foundSwitch{ways: []way{w}}
	s.set(w.offset, behind)
	x.switches = append(x.switches, s)
	return len(x.switches) - 1
}

// scan probes the ports of a new switch. Each used port limits the possible offsets of the others.
func (x *exploration) scan(i int) {
	s := x.switches[i]
	w := s.ways[0]
	known := &[]moved{}
	for d := 1; d < x.ports; d++ {
		for _, offset := range []int{d, -d} {
			there := w.through(offset)
			needed := func() bool {
				return s.at(offset).kind == nothing && offset-s.low < x.ports && s.high-offset < x.ports
			}
			x.who(there, needed, func(m *message) { x.foundHost(i, offset, m, known) })
			around := append(append(there[:len(there):len(there)], 0), there.Back()...)
			x.loops(func(int) myrinet.Route { return around }, needed, func(hit bool) {
				if hit && s.at(offset).kind == nothing {
					s.set(offset, peer{kind: aLink})
				}
			})
		}
	}
	x.step = func() { x.compareHosts(i, *known) }
}

// foundHost handles the answer of a host at an offset of switch i.
func (x *exploration) foundHost(i, offset int, m *message, known *[]moved) {
	s := x.switches[i]
	if s.at(offset).kind != nothing {
		return
	}
	s.set(offset, peer{kind: aHost, host: -1})
	if h, ok := x.byID[m.host]; ok {
		*known = append(*known, moved{h, offset})
		return
	}
	if len(x.hosts) >= MaxHosts {
		x.tooMany++
		return
	}
	s.at(offset).host = x.addHost(identity{m.host, m.name}, end{i, offset})
	x.digests[m.host] = m.digest
}

// moved is a known host that was found again at an offset of a new switch.
type moved struct{ host, offset int }

// compareHosts checks hosts that were found at two switches. Either the switches are the same one,
// which a lost probe has hidden, or two hosts claim one identity.
func (x *exploration) compareHosts(i int, known []moved) {
	for _, k := range known {
		host := x.hosts[k.host]
		if host.at.sw == i || host.at.sw < 0 {
			x.twice = append(x.twice, host.id)
			continue
		}
		old, w := x.switches[host.at.sw], x.switches[i].ways[0]
		entry := host.at.offset - k.offset // port of the old switch at which w enters
		if entry <= -x.ports || entry >= x.ports {
			x.twice = append(x.twice, host.id)
			continue
		}
		exists := func() bool { return len(x.switches) > i }
		x.loops(func(try int) myrinet.Route { return loop(w.route, entry, old.way(try)) }, exists, func(hit bool) {
			switch {
			case !exists():
			case hit:
				x.merge(i, host.at.sw, entry)
			default:
				x.twice = append(x.twice, host.id)
			}
		})
	}
	x.step = func() {
		if len(x.switches) > i {
			x.opened(i)
		}
		x.nextLink()
	}
}

// merge merges switch i, the last one, into switch j; w enters j at the port with the offset.
func (x *exploration) merge(i, j, offset int) {
	s, from := x.switches[j], *x.switches[i].at(0)
	if i == 0 || from.kind != aSwitch {
		x.broken = true
		return
	}
	for _, h := range x.hosts {
		x.broken = x.broken || h.at.sw == i
	}
	if k := s.at(offset).kind; k != nothing && k != aLink {
		x.broken = true
	}
	x.switches = x.switches[:i]
	s.set(offset, peer{kind: aLink})
	x.join(from.to, end{j, offset})
}

// opened adds the links of a new switch to the links whose other end is unknown.
func (x *exploration) opened(i int) {
	s := x.switches[i]
	for offset := s.low; offset <= s.high; offset++ {
		if s.at(offset).kind == aLink {
			x.open = append(x.open, end{i, offset})
		}
	}
}

func (x *exploration) isOpen(e end) bool { return x.switches[e.sw].at(e.offset).kind == aLink }

// nextLink compares an open link with all other open ends. The cable leads to one of them, or to a
// new switch.
func (x *exploration) nextLink() {
	for len(x.open) > 0 && !x.isOpen(x.open[0]) {
		x.open = x.open[1:]
	}
	if len(x.open) == 0 {
		return
	}
	e := x.open[0]
	x.open = x.open[1:]
	for _, f := range x.open {
		if !x.isOpen(f) {
			continue
		}
		route := func(try int) myrinet.Route {
			return loop(x.switches[e.sw].way(try).through(e.offset), f.offset, x.switches[f.sw].way(try))
		}
		x.loops(route, func() bool { return x.isOpen(e) && x.isOpen(f) }, func(hit bool) {
			if hit && x.isOpen(e) && x.isOpen(f) {
				x.join(e, f)
			}
		})
	}
	x.step = func() {
		switch {
		case !x.isOpen(e):
			x.nextLink()
		case len(x.switches) == x.most || len(x.switches[e.sw].ways[0].route) >= maxWayTurns:
			x.beyond++
			x.nextLink()
		default:
			there := way{route: x.switches[e.sw].ways[0].through(e.offset)}
			i := x.newSwitch(there, peer{kind: aSwitch, to: e})
			x.switches[e.sw].set(e.offset, peer{kind: aSwitch, to: end{i, 0}})
			x.scan(i)
		}
	}
}

// join records a cable between two ports, and the additional routes that it provides.
func (x *exploration) join(e, f end) {
	a, b := x.switches[e.sw], x.switches[f.sw]
	a.set(e.offset, peer{kind: aSwitch, to: f})
	b.set(f.offset, peer{kind: aSwitch, to: e})
	a.addWay(way{b.ways[0].through(f.offset), e.offset})
	b.addWay(way{a.ways[0].through(e.offset), f.offset})
}

// maxWays limits the known routes to a switch.
const maxWays = 4

func (s *foundSwitch) addWay(w way) {
	if len(s.ways) < maxWays && len(w.route) <= maxWayTurns {
		s.ways = append(s.ways, w)
	}
}

// maxWayTurns keeps a probe there and back, plus a turn, within the longest route.
const maxWayTurns = (framing.MaxHops - 4) / 2

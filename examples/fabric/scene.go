package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// scene is a network, what happens to it, and its packets.
type scene struct {
	w   *sim.World
	n   *mapper.Network
	rng *rand.Rand
	out io.Writer

	calm    bool
	dead    []func()       // have what has died return
	last    map[int]string // text of each host's map that was told last
	carried map[path]*load
	current [][]*load // what each pair's packets go by, so that arrivals are counted where they were sent
}

const (
	look  = 10 * time.Millisecond  // from one look at the mapper to the next
	each  = 200 * time.Millisecond // from one failure to the next, about
	quiet = 20 * time.Second       // the longest that the mapper may need at the end

	mostDead = 3 // cables and switches at a time
)

func setScene(w *sim.World, n *mapper.Network, seed uint64, out io.Writer) *scene {
	s := &scene{w: w, n: n, rng: rand.New(rand.NewPCG(seed, 0x666162726963)), out: out, last: map[int]string{}, carried: map[path]*load{}}
	s.listen()
	return s
}

func (s *scene) tell(format string, args ...any) {
	now := time.Duration(s.w.Now() - sim.Start)
	fmt.Fprintf(s.out, "%7.3f s  %s\n", now.Seconds(), fmt.Sprintf(format, args...))
}

// play has things fail for a while, then mends all, and returns the map of what is there
// again.
func (s *scene) play(d time.Duration) (*mapper.Map, error) {
	if _, err := s.untilMapped(); err != nil {
		return nil, err
	}
	s.traffic()
	for end := s.w.Now() + int64(d); s.w.Now() < end; {
		s.fail()
		for wait := time.Duration(s.rng.Int64N(2 * int64(each))); wait > 0; wait -= look {
			if err := s.w.Sleep(look); err != nil {
				return nil, err
			}
			s.watch()
		}
	}
	for len(s.dead) > 0 {
		s.revive()
	}
	m, err := s.untilMapped()
	s.calm = true
	if err != nil {
		return nil, err
	}
	return m, s.w.Sleep(time.Second) // what is under way arrives
}

// fail has a cable or switch die, or the one that died first return.
func (s *scene) fail() {
	if len(s.dead) > 0 && (len(s.dead) == mostDead || s.rng.IntN(3) == 0) {
		s.revive()
		return
	}
	b := s.n.Built
	i := s.rng.IntN(len(b.Cables) + len(b.Switches))
	if i >= len(b.Cables) {
		if sw := b.Switches[i-len(b.Cables)]; sw.Up() {
			sw.Fail()
			s.tell("switch %v dies", sw)
			s.dead = append(s.dead, func() { sw.Restore(); s.tell("switch %v returns", sw) })
		}
		return
	}
	c, t := b.Cables[i], s.n.Topology
	what := fmt.Sprintf("the cable from %s to %s", t.End(t.Cables[i].A), t.End(t.Cables[i].B))
	if !c.IsCut() {
		c.Cut()
		s.tell("%s is cut", what)
		s.dead = append(s.dead, func() { c.Mend(); s.tell("%s is mended", what) })
	}
}

func (s *scene) revive() {
	s.dead[0]()
	s.dead = s.dead[1:]
}

// watch tells which hosts' maps have changed, and returns the last one that has most
// hosts.
func (s *scene) watch() (most *mapper.Map) {
	for _, i := range s.n.Leaders() {
		m := s.n.Mapped(i)
		if m == nil {
			continue
		}
		if most == nil || len(m.IDs) > len(most.IDs) {
			most = m
		}
		if text := m.Topology.Text(); text != s.last[i] {
			s.last[i] = text
			s.tell("map: %s", m.Summary())
		}
	}
	return most
}

// untilMapped waits until the map is that of the whole network, and all hosts have their
// routes.
func (s *scene) untilMapped() (*mapper.Map, error) {
	for end := s.w.Now() + int64(quiet); s.w.Now() < end; {
		if err := s.w.Sleep(look); err != nil {
			return nil, err
		}
		if m := s.watch(); m != nil && len(s.n.Leaders()) == s.parts() && len(mapper.Compare(&m.Topology, s.n.Topology, m.Topology.Hosts[m.Mapper])) == 0 {
			return m, nil
		}
	}
	return nil, errors.New("the network is not mapped in time")
}

// parts is how many parts of the network with hosts have no path to each other.
func (s *scene) parts() (n int) {
	routes := mapper.Routes(s.n.Topology)
	for i := range routes {
		first := true
		for k := range i {
			first = first && routes[i][k] == nil
		}
		if first {
			n++
		}
	}
	return n
}

// way describes a route: the switches on it.
func (s *scene) way(from int, route myrinet.Route) string {
	_, cables := mapper.Walk(s.n.Topology, from, route)
	way, at := "", topology.AtHost(from)
	for _, c := range cables {
		ends := s.n.Topology.Cables[c]
		if at.Host == ends.A.Host && at.Node == ends.A.Node {
			at = ends.B
		} else {
			at = ends.A
		}
		if !at.Host {
			way += " " + s.n.Topology.Switches[at.Node]
		}
	}
	return way
}

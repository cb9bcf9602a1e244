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

// scene is a network, with the events in it and its packets.
type scene struct {
	w   *sim.World
	n   *mapper.Network
	rng *rand.Rand
	out io.Writer

	calm    bool
	dead    []func()       // restore failed parts
	last    map[int]string // last reported text of each host's map
	carried map[path]*load
	current [][]*load // current route's load of each pair, so that arrivals count for the route of sending
}

const (
	look  = 10 * time.Millisecond  // interval of checks of the mapper
	each  = 200 * time.Millisecond // approximate interval of failures
	quiet = 20 * time.Second       // limit for the mapper at the end

	mostDead = 3 // failed cables and switches at a time
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

// play lets parts fail for a while, then restores all, and returns the final map.
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
	return m, s.w.Sleep(time.Second) // packets in flight arrive
}

// fail lets a cable or switch fail, or restores the one that failed first.
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

// watch reports hosts whose maps have changed, and returns the last map with the most hosts.
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

// untilMapped waits until the map covers the whole network, and all hosts have their routes.
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

// parts returns the number of parts of the network with hosts that have no path to each other.
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

// way returns a description of a route: its switches.
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

package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
)

const (
	packetType = 1
	packetSize = 1024                   // bytes of payload
	packetGap  = 500 * time.Microsecond // mean interval between packets of a host
)

// path is a route of packets of a pair.
type path struct {
	from, to int
	route    string // its switches
}

// load is the traffic of a route.
type load struct{ sent, arrived uint64 }

// listen counts arrivals. A packet identifies its route.
func (s *scene) listen() {
	for _, h := range s.n.Hosts {
		h.Deliver = func(typ uint16, payload []byte) {
			if typ == packetType && len(payload) == packetSize {
				if l := s.sentBy(payload); l != nil {
					l.arrived++
				}
			}
		}
	}
}

// sentBy returns the load for a packet.
func (s *scene) sentBy(payload []byte) *load {
	from, n := int(binary.BigEndian.Uint32(payload)), int(binary.BigEndian.Uint32(payload[4:]))
	if from >= len(s.current) || n >= len(s.current[from]) {
		return nil
	}
	return s.current[from][n]
}

// traffic makes each host send packets to the others, at random.
func (s *scene) traffic() {
	s.current = make([][]*load, len(s.n.Hosts))
	for i := range s.n.Hosts {
		s.send(i)
	}
}

// send sends a packet of a host, and schedules the next one.
func (s *scene) send(from int) {
	if s.calm {
		return
	}
	to := s.rng.IntN(len(s.n.Hosts) - 1)
	if to >= from {
		to++
	}
	if route := s.n.Tables()[from][to]; route != nil {
		p := path{from, to, s.way(from, route)}
		if s.carried[p] == nil {
			s.carried[p] = &load{}
		}
		l := s.carried[p]
		n := slices.Index(s.current[from], l)
		if n < 0 {
			n = len(s.current[from])
			s.current[from] = append(s.current[from], l)
		}
		payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 0, packetSize), uint32(from)), uint32(n))
		if s.n.Hosts[from].Send(mapper.HostID(to), packetType, payload[:packetSize]) {
			l.sent++
		}
	}
	s.w.At(s.w.Now()+s.rng.Int64N(2*int64(packetGap)), func() { s.send(from) })
}

// table prints the traffic of each route.
func (s *scene) table() {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nfrom\tto\tby switches\tpackets sent\tarrived\tlost")
	var sum load
	for _, p := range slices.SortedFunc(maps.Keys(s.carried), func(a, b path) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.route, b.route))
	}) {
		l := s.carried[p]
		sum.sent += l.sent
		sum.arrived += l.arrived
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", s.n.Topology.Hosts[p.from], s.n.Topology.Hosts[p.to], p.route, l.sent, l.arrived, l.sent-l.arrived)
	}
	fmt.Fprintf(w, "all\t\t\t%d\t%d\t%d\n", sum.sent, sum.arrived, sum.sent-sum.arrived)
	w.Flush()
}

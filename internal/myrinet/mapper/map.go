package mapper

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// Map is the result of a mapping. Two mappers that see the same fabric produce the same Topology
// and IDs: hosts are sorted by identity, switches are in an order that depends only on their
// neighbours, and the lowest used port of a switch is 0.
type Map struct {
	Topology topology.Topology
	IDs      []ethertype.MAC `metric:"bobnet_map_hosts" help:"Hosts on the last map."`
	Mapper   int             // index of the mapper's host

	Probes   uint64        `metric:"bobnet_map_probes" help:"Probes sent for the last map."`
	Lost     uint64        `metric:"bobnet_map_lost_probes" help:"Probes for the last map without an answer."`
	Duration time.Duration `metric:"bobnet_map_seconds" help:"Duration of the last mapping."`

	Twice   []ethertype.MAC // identities that several hosts claim; the host nearest to the mapper has it on the map
	TooMany int             // hosts omitted because there are more than MaxHosts
	Beyond  int             // links omitted because there are too many switches, or they are too far away
}

// result builds a map from the exploration.
func (x *exploration) result() *Map {
	m := &Map{Twice: x.twice, TooMany: x.tooMany, Beyond: x.beyond}
	slices.SortFunc(m.Twice, compareMAC)
	m.Twice = slices.Compact(m.Twice)
	m.Topology.Ports = x.ports
	order := make([]int, len(x.hosts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compareMAC(x.hosts[a].id, x.hosts[b].id) })
	names := map[string]bool{}
	hostAt := make([]int, len(order))
	for i, h := range order {
		hostAt[h] = i
		m.IDs = append(m.IDs, x.hosts[h].id)
		m.Topology.Hosts = append(m.Topology.Hosts, uniqueName(names, hostName(x.hosts[h].identity)))
	}
	m.Mapper = hostAt[0]
	if x.cable >= 0 {
		m.Topology.Cables = []topology.Join{{A: topology.AtHost(0), B: topology.AtHost(1)}}
	}
	x.plug(m, hostAt, names)
	return m
}

func compareMAC(a, b ethertype.MAC) int { return bytes.Compare(a[:], b[:]) }

// hostName returns the name that the host has announced, if it is valid in a fabric file, or else
// its identity.
func hostName(h identity) string {
	if topology.ValidName(h.name) {
		return h.name
	}
	return fmt.Sprintf("%02x-%02x-%02x-%02x-%02x-%02x", h.id[0], h.id[1], h.id[2], h.id[3], h.id[4], h.id[5])
}

func uniqueName(taken map[string]bool, name string) string {
	base := name[:min(len(name), maxNameLen-4)]
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	taken[name] = true
	return name
}

// plug adds switches and cables to the map.
func (x *exploration) plug(m *Map, hostAt []int, names map[string]bool) {
	order := x.order()
	place := make([]int, len(order))
	for i, s := range order {
		place[s] = i
		m.Topology.Switches = append(m.Topology.Switches, uniqueName(names, fmt.Sprintf("s%d", i)))
	}
	for i, at := range order {
		s := x.switches[at]
		for offset := s.low; offset <= s.high; offset++ {
			here := topology.AtSwitch(i, offset-s.low)
			switch p := s.at(offset); {
			case p.kind == aHost && p.host >= 0:
				m.Topology.Cables = append(m.Topology.Cables, topology.Join{A: topology.AtHost(hostAt[p.host]), B: here})
			case p.kind == aSwitch:
				there := topology.AtSwitch(place[p.to.sw], p.to.offset-x.switches[p.to.sw].low)
				if there.Node > i || there.Node == i && there.Port > here.Port {
					m.Topology.Cables = append(m.Topology.Cables, topology.Join{A: here, B: there})
				}
			}
		}
	}
}

// order sorts the switches by labels that do not depend on the observer. A label is a hash of the
// switch's neighbours and their labels; it is refined until the number of distinct labels stays the
// same.
func (x *exploration) order() []int {
	labels := make([]uint64, len(x.switches))
	for distinct := -1; ; {
		seen := map[uint64]bool{}
		for _, l := range labels {
			seen[l] = true
		}
		if len(seen) == distinct {
			break
		}
		distinct = len(seen)
		next := make([]uint64, len(labels))
		for i, s := range x.switches {
			next[i] = x.label(s, labels[i], labels)
		}
		labels = next
	}
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(labels[a], labels[b]) })
	return order
}

func (x *exploration) label(s *foundSwitch, own uint64, labels []uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, own)
	for offset := s.low; offset <= s.high; offset++ {
		switch p := s.at(offset); {
		case p.kind == aHost && p.host >= 0:
			fmt.Fprintf(h, " %d host %x", offset-s.low, x.hosts[p.host].id)
		case p.kind == aSwitch:
			fmt.Fprintf(h, " %d switch %d %d", offset-s.low, labels[p.to.sw], p.to.offset-x.switches[p.to.sw].low)
		}
	}
	return h.Sum64()
}

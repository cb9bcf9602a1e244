package mapper

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

func topologies() map[string]*topology.Topology {
	tops := map[string]*topology.Topology{
		"one switch": topology.Line(8, 1, 8), "two switches": topology.Line(8, 2, 5), "a row": topology.Line(4, 12, 2),
		"a host alone at a switch": topology.Line(8, 1, 1),
		"a host alone":             {Ports: 8, Hosts: []string{"h"}},
		"a cable":                  {Ports: 8, Hosts: []string{"a", "b"}, Cables: []topology.Join{{A: topology.AtHost(0), B: topology.AtHost(1)}}},
		"a switch with a loop": {Ports: 4, Hosts: []string{"a", "b"}, Switches: []string{"s"}, Cables: []topology.Join{
			{A: topology.AtHost(0), B: topology.AtSwitch(0, 2)}, {A: topology.AtSwitch(0, 0), B: topology.AtSwitch(0, 3)}, {A: topology.AtHost(1), B: topology.AtSwitch(0, 1)}}},
		"figure 3": topology.NOW(),
	}
	n := uint64(30)
	if !need.Full() {
		n = 8
	}
	for seed := range n {
		tops[fmt.Sprint("random ", seed)] = topology.Random(seed, 4+int(seed%5), 2+int(seed), 1+int(seed*3%29))
	}
	return tops
}

// TestRoutes: each pair that has a path has a route, which leads there, and packets on
// all routes together cannot deadlock.
func TestRoutes(t *testing.T) {
	for name, top := range topologies() {
		tables := Routes(top)
		at := plugs(top)
		for i := range top.Hosts {
			reached := reach(top, at, top.Hosts[i])
			for k := range top.Hosts {
				route := tables[i][k]
				if i == k || !reached[k] {
					if route != nil {
						t.Errorf("%s: host %d has route %v to %d, to which there is no path", name, i, route, k)
					}
					continue
				}
				if to, _ := Walk(top, i, route); route == nil || to != k || route.Check() != nil {
					t.Errorf("%s: host %d: route %v to %d leads to %d", name, i, route, k, to)
				}
			}
		}
		if err := Deadlocks(top, tables); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpread: routes share cables of equal length evenly.
func TestSpread(t *testing.T) {
	top := &topology.Topology{Ports: 8, Switches: []string{"s", "t"}}
	for i := range 4 {
		top.Hosts = append(top.Hosts, fmt.Sprint("a", i), fmt.Sprint("b", i))
		top.Cables = append(top.Cables, topology.Join{A: topology.AtHost(2 * i), B: topology.AtSwitch(0, i)},
			topology.Join{A: topology.AtHost(2*i + 1), B: topology.AtSwitch(1, i)}, topology.Join{A: topology.AtSwitch(0, 4+i), B: topology.AtSwitch(1, 4+i)})
	}
	used := map[int]int{}
	for i, row := range Routes(top) {
		for _, route := range row {
			if len(route) == 2 {
				_, cables := Walk(top, i, route)
				used[cables[1]]++
			}
		}
	}
	if len(used) != 4 {
		t.Errorf("%d of 4 cables are used", len(used))
	}
	for cable, n := range used {
		if n != 8 {
			t.Errorf("cable %d has %d of 32 routes", cable, n)
		}
	}
}

// TestSpreadOfPermutations: when each host speaks to the one so many numbers further on,
// cables between the same two switches share what passes, whatever the distance is.
func TestSpreadOfPermutations(t *testing.T) {
	top := topology.NOW()
	tables := Routes(top)
	type pair struct{ a, b topology.Plug }
	between := map[pair][]int{} // cables, by the switches that they join
	for i, c := range top.Cables {
		if !c.A.Host && !c.B.Host {
			key := pair{topology.AtSwitch(c.A.Node, 0), topology.AtSwitch(c.B.Node, 0)}
			between[key] = append(between[key], i)
		}
	}
	for shift := 1; shift < len(top.Hosts); shift++ {
		used := map[int]int{}
		for i := range top.Hosts {
			_, cables := Walk(top, i, tables[i][(i+shift)%len(top.Hosts)])
			for _, c := range cables {
				used[c]++
			}
		}
		for _, cables := range between {
			all := 0
			for _, c := range cables {
				all += used[c]
			}
			for _, c := range cables {
				if all >= 20 && len(cables) > 1 && used[c] < all/len(cables)/4 {
					t.Errorf("%d hosts on: cable %d carries %d of the %d routes that %d cables share", shift, c, used[c], all, len(cables))
				}
			}
		}
	}
}

// ring is four switches in a ring, with a host at each, and routes that all lead around
// it the same way.
func ring() (*topology.Topology, Tables) {
	top := &topology.Topology{Ports: 8}
	tables := make(Tables, 4)
	for i := range 4 {
		top.Hosts = append(top.Hosts, fmt.Sprint("h", i))
		top.Switches = append(top.Switches, fmt.Sprint("s", i))
		top.Cables = append(top.Cables, topology.Join{A: topology.AtSwitch(i, 0), B: topology.AtSwitch((i+1)%4, 1)},
			topology.Join{A: topology.AtHost(i), B: topology.AtSwitch(i, 2)})
		tables[i] = make([]myrinet.Route, 4)
		tables[i][(i+1)%4] = myrinet.Route{-2, 1}
		tables[i][(i+2)%4] = myrinet.Route{-2, -1, 1}
	}
	return top, tables
}

// TestDeadlocks: a ring of links that wait for each other is found, also where two
// tables make it only together.
func TestDeadlocks(t *testing.T) {
	top, around := ring()
	if err := Deadlocks(top, around); !errors.Is(err, ErrCycle) {
		t.Errorf("routes around a ring: %v", err)
	}
	even, odd := make(Tables, 4), make(Tables, 4)
	for i := range around {
		[]Tables{even, odd}[i%2][i] = around[i]
	}
	if err := Deadlocks(top, even); err != nil {
		t.Error(err)
	}
	if err := Deadlocks(top, odd); err != nil {
		t.Error(err)
	}
	if err := Deadlocks(top, even, odd); !errors.Is(err, ErrCycle) {
		t.Errorf("both halves of the routes around a ring: %v", err)
	}
}

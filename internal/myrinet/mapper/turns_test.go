package mapper

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
)

// fatTree is hosts at leaves, each of which has a cable to every spine.
func fatTree(spines, leaves, hosts int) *topology.Topology {
	t := &topology.Topology{Ports: max(spines+hosts, leaves)}
	for s := range spines {
		t.Switches = append(t.Switches, fmt.Sprint("spine", s))
	}
	for l := range leaves {
		t.Switches = append(t.Switches, fmt.Sprint("leaf", l))
		for s := range spines {
			t.Cables = append(t.Cables, topology.Join{A: topology.AtSwitch(s, l), B: topology.AtSwitch(spines+l, hosts+s)})
		}
		for h := range hosts {
			t.Hosts = append(t.Hosts, fmt.Sprintf("h%d.%d", l, h))
			t.Cables = append(t.Cables, topology.Join{A: topology.AtHost(len(t.Hosts) - 1), B: topology.AtSwitch(spines+l, h)})
		}
	}
	return t
}

// cut returns a topology without some of the cables between switches.
func cut(t *topology.Topology, rng *rand.Rand, n int) *topology.Topology {
	c := *t
	c.Cables = nil
	gone := map[int]bool{}
	for range n {
		gone[rng.IntN(len(t.Cables))] = true
	}
	for i, cable := range t.Cables {
		if !gone[i] || cable.A.Host || cable.B.Host {
			c.Cables = append(c.Cables, cable)
		}
	}
	return &c
}

// TestTurns: whatever cables are cut of fabrics of many kinds, packets on all routes together
// cannot deadlock, each pair of hosts that has a path has a route, and routes are seldom
// longer than the shortest paths.
func TestTurns(t *testing.T) {
	need.Simulated(t)
	rounds := 8
	if need.Full() {
		rounds = 24
	}
	rng := rand.New(rand.NewPCG(3, 0))
	longer, pairs := 0, 0
	for round := range rounds {
		for name, whole := range map[string]*topology.Topology{
			"figure 3": topology.NOW(), "fat tree": fatTree(4, 8, 4),
			"random": topology.Random(uint64(round), 4+round%9, 2+rng.IntN(40), 20),
		} {
			top := cut(whole, rng, round)
			tables := Routes(top)
			if err := Deadlocks(top, tables); err != nil {
				t.Errorf("%s, round %d: %v", name, round, err)
			}
			x := newTurns(top)
			homes := newRouter(top).homes
			for i, home := range homes {
				_, far, _ := x.breadthFirst(max(home.Node, 0))
				for k, other := range homes {
					if i == k || home.Node < 0 || other.Node < 0 || home.Host || other.Host {
						continue
					}
					route := tables[i][k]
					if (route != nil) != (far[other.Node] >= 0) {
						t.Fatalf("%s, round %d: host %d has route %v to %d, which is %d switches away", name, round, i, route, k, far[other.Node])
					}
					if route == nil {
						continue
					}
					if to, _ := Walk(top, i, route); to != k {
						t.Fatalf("%s, round %d: route %v of host %d leads to %d, not %d", name, round, route, i, to, k)
					}
					pairs++
					longer += len(route) - 1 - far[other.Node]
				}
			}
		}
	}
	t.Logf("%d routes pass %d switches more than shortest paths", pairs, longer)
	if longer*20 > pairs {
		t.Errorf("%d routes pass %d switches more than shortest paths: more than one of 20", pairs, longer)
	}
}

// TestBisection: routes share the cables between the halves of a network evenly, and use all
// spines of a fat tree. The bandwidth across is that of all hosts of one half, until the most
// used link is full.
func TestBisection(t *testing.T) {
	for _, x := range []struct {
		name   string
		top    *topology.Topology
		middle int     // the switches up to this one, exclusive, join the halves
		most   float64 // share of the most used link, in those of an even split
	}{
		{"figure 3", topology.NOW(), 2, 1.3},
		{"fat tree of 8 hosts", fatTree(2, 4, 2), 2, 1},
		{"fat tree of 64 hosts", fatTree(8, 8, 8), 8, 1.05},
	} {
		load := Load(x.top, Routes(x.top))
		most, all, n, says := 0, 0, 0, ""
		for i, c := range x.top.Cables {
			if c.A.Host || c.B.Host || min(c.A.Node, c.B.Node) >= x.middle {
				continue
			}
			for _, routes := range load[i] {
				most = max(most, routes)
				all += routes
				n++
			}
			says += fmt.Sprintf("\n\t%s to %s: %d there, %d back", x.top.Name(c.A), x.top.Name(c.B), load[i][0], load[i][1])
		}
		mean := float64(all) / float64(n)
		t.Logf("%s: %d links carry %d routes, %.1f each, at most %d; all together carry %.1f times what one does%s", x.name, n, all, mean, most, float64(all)/float64(most), says)
		if float64(most) > x.most*mean {
			t.Errorf("%s: a link carries %d routes, %.2f times its share", x.name, most, float64(most)/mean)
		}
	}
}

package mapper

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// maxDifferences limits the differences that Compare reports.
const maxDifferences = 100

// Compare returns human-readable differences between a map and the truth, nil if there are none. It
// identifies hosts by their names, and switches by their neighbours. It ignores the names of
// switches, and an offset that is the same for all ports of a switch, because a mapper sees
// neither. A mapper sees only what it has a path to. So only the part of the truth to which the
// host from has a path counts; if from is empty, all of it.
func Compare(found, truth *topology.Topology, from string) []string {
	c := &comparison{found: found, truth: truth, match: map[int]shifted{}, back: map[int]int{}}
	c.foundAt, c.truthAt = plugs(found), plugs(truth)
	c.hosts(reach(truth, c.truthAt, from))
	for len(c.queue) > 0 {
		s := c.queue[0]
		c.queue = c.queue[1:]
		c.switches(s)
	}
	for i, name := range found.Switches {
		if _, ok := c.back[i]; !ok && len(c.says) == 0 {
			c.say("switch %s of the map has no place in the truth", name)
		}
	}
	if n := len(c.says); n > maxDifferences {
		c.says = append(c.says[:maxDifferences], fmt.Sprintf("and %d more", n-maxDifferences))
	}
	return c.says
}

// shifted is a switch of the map, and the difference between its port numbers and those of the
// truth.
type shifted struct{ sw, by int }

type comparison struct {
	found, truth     *topology.Topology
	foundAt, truthAt map[topology.Plug]topology.Plug
	match            map[int]shifted // by switch of the truth
	back             map[int]int     // switch of the truth, by switch of the map
	queue            []int           // switches of the truth whose ports are still to be compared
	says             []string
}

func (c *comparison) say(format string, args ...any) {
	c.says = append(c.says, fmt.Sprintf(format, args...))
}

// plugs returns the other end of the cable at each plug.
func plugs(t *topology.Topology) map[topology.Plug]topology.Plug {
	m := map[topology.Plug]topology.Plug{}
	for _, c := range t.Cables {
		m[c.A], m[c.B] = c.B, c.A
	}
	return m
}

// reach returns the indices of the hosts to which the named host has a path.
func reach(t *topology.Topology, at map[topology.Plug]topology.Plug, from string) map[int]bool {
	hosts := map[int]bool{}
	start := slices.Index(t.Hosts, from)
	if start < 0 {
		for i := range t.Hosts {
			hosts[i] = true
		}
		return hosts
	}
	hosts[start] = true
	seen := map[int]bool{}
	var queue []int
	visit := func(p topology.Plug, ok bool) {
		switch {
		case !ok:
		case p.Host:
			hosts[p.Node] = true
		case !seen[p.Node]:
			seen[p.Node] = true
			queue = append(queue, p.Node)
		}
	}
	p, ok := at[topology.AtHost(start)]
	visit(p, ok)
	for ; len(queue) > 0; queue = queue[1:] {
		for port := range t.Ports {
			p, ok := at[topology.AtSwitch(queue[0], port)]
			visit(p, ok)
		}
	}
	return hosts
}

// hosts compares the hosts, and the other ends of their cables.
func (c *comparison) hosts(counts map[int]bool) {
	for i, name := range c.truth.Hosts {
		k := slices.Index(c.found.Hosts, name)
		switch {
		case !counts[i]:
			if k >= 0 {
				c.say("host %s is on the map; in the truth there is no path to it", name)
			}
		case k < 0:
			c.say("host %s is not on the map", name)
		default:
			c.ends(topology.AtHost(i), c.truthAt, c.foundAt, k)
		}
	}
	for _, name := range c.found.Hosts {
		if !slices.Contains(c.truth.Hosts, name) {
			c.say("host %s is on the map, but not in the truth", name)
		}
	}
}

func (c *comparison) ends(host topology.Plug, truthAt, foundAt map[topology.Plug]topology.Plug, k int) {
	want, plugged := truthAt[host]
	got, found := foundAt[topology.AtHost(k)]
	if plugged || found {
		c.same(host, want, plugged, got, found)
	}
}

// same compares the other end of the cable at a plug of the truth with that of the map.
func (c *comparison) same(at, want topology.Plug, plugged bool, got topology.Plug, found bool) {
	here := c.truth.Name(at)
	switch {
	case !found:
		c.say("the cable from %s to %s is not on the map", here, c.truth.Name(want))
	case !plugged:
		c.say("the map has a cable from %s to %s; in the truth nothing is plugged in there", here, c.found.Name(got))
	case want.Host && got.Host:
		if c.truth.Hosts[want.Node] != c.found.Hosts[got.Node] {
			c.say("the cable from %s leads to %s, on the map to %s", here, c.truth.Name(want), c.found.Name(got))
		}
	case want.Host != got.Host:
		c.say("the cable from %s leads to %s, on the map to %s", here, c.truth.Name(want), c.found.Name(got))
	default:
		c.pair(here, want, got)
	}
}

// pair records that a port of the truth and one of the map are the same, or reports a
// contradiction.
func (c *comparison) pair(here string, want, got topology.Plug) {
	m := shifted{got.Node, got.Port - want.Port}
	old, known := c.match[want.Node]
	other, taken := c.back[got.Node]
	switch {
	case known && old == m:
	case known && old.sw == m.sw:
		c.say("the cable from %s leads to %s, on the map to port %d of the same switch", here, c.truth.Name(want), got.Port-old.by)
	case known:
		c.say("the cable from %s leads to %s, which is switch %s of the map; there it leads to %s", here, c.truth.Name(want), c.found.Switches[old.sw], c.found.Name(got))
	case taken:
		c.say("the cable from %s leads to %s; on the map it leads to switch %s of the truth", here, c.truth.Name(want), c.truth.Switches[other])
	default:
		c.match[want.Node], c.back[got.Node] = m, want.Node
		c.queue = append(c.queue, want.Node)
	}
}

// switches compares the neighbours of a switch of the truth with those of its match.
func (c *comparison) switches(s int) {
	m := c.match[s]
	for port := -c.truth.Ports; port < 2*c.truth.Ports; port++ {
		at := topology.AtSwitch(s, port)
		want, plugged := c.truthAt[at]
		got, found := c.foundAt[topology.AtSwitch(m.sw, port+m.by)]
		if plugged || found {
			c.same(at, want, plugged, got, found)
		}
	}
}

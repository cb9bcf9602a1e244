// Package topology describes the topology of a fabric as data and as a fabric file, and builds it
// in virtual time.
package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Topology describes hosts, switches and cables: a fabric to be built, the result of a mapper, or
// the truth to compare that with. A mapper cannot see the absolute numbers of ports: in its result
// all ports of a switch may be shifted by the same number.
type Topology struct {
	Ports    int      // of each switch
	Hosts    []string // names; each host has one card
	Switches []string
	Cables   []Join
}

// Join is a cable.
type Join struct{ A, B Plug }

// Plug is an end of a cable: a port of a switch, or a card.
type Plug struct {
	Host bool
	Node int // index of the host, or of the switch
	Port int // of the switch
}

// AtHost returns the plug of a host's card.
func AtHost(i int) Plug { return Plug{Host: true, Node: i} }

// AtSwitch returns the plug of a switch's port.
func AtSwitch(i, port int) Plug { return Plug{Node: i, Port: port} }

// Name describes a plug for people.
func (t *Topology) Name(p Plug) string {
	switch {
	case p.Host && p.Node >= 0 && p.Node < len(t.Hosts):
		return "host " + t.Hosts[p.Node]
	case !p.Host && p.Node >= 0 && p.Node < len(t.Switches):
		return fmt.Sprintf("port %d of switch %s", p.Port, t.Switches[p.Node])
	}
	return fmt.Sprintf("node %d, port %d", p.Node, p.Port)
}

// Check returns an error that names the first invalid cable.
func (t *Topology) Check() error {
	if t.Ports < 2 || t.Ports > crossbar.MaxPorts {
		return fmt.Errorf("myrinet: switches of %d ports: they can have 2 to %d", t.Ports, crossbar.MaxPorts)
	}
	taken := map[Plug]int{}
	for i, c := range t.Cables {
		if c.A == c.B {
			return fmt.Errorf("myrinet: cable %d leads from %s to itself: plug its other end in elsewhere", i, t.Name(c.A))
		}
		for _, p := range []Plug{c.A, c.B} {
			nodes := len(t.Switches)
			if p.Host {
				nodes = len(t.Hosts)
			}
			if p.Node < 0 || p.Node >= nodes {
				return fmt.Errorf("myrinet: cable %d: there is no %s", i, t.Name(p))
			}
			if !p.Host && (p.Port < 0 || p.Port >= t.Ports) {
				return fmt.Errorf("myrinet: cable %d: there is no %s, they are 0 to %d", i, t.Name(p), t.Ports-1)
			}
			if j, ok := taken[p]; ok {
				return fmt.Errorf("myrinet: cables %d and %d are both at %s: choose a free port", j, i, t.Name(p))
			}
			taken[p] = i
		}
	}
	return nil
}

// Built is the result of Build, in the order of the topology.
type Built struct {
	Hosts    []*myrinet.Port
	Switches []*myrinet.Switch
	Cables   []*myrinet.Cable
}

// Build builds the topology in a fabric. host returns the Host behind the card of host i. The
// fabric's switches must have as many ports as the topology's.
func Build(f *myrinet.Fabric, t *Topology, host func(i int) myrinet.Host) (*Built, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if t.Ports != f.Ports() {
		return nil, fmt.Errorf("myrinet: build topology: its switches have %d ports and those of the fabric have %d (set Options.Ports to %d)", t.Ports, f.Ports(), t.Ports)
	}
	b := &Built{}
	for i, name := range t.Hosts {
		b.Hosts = append(b.Hosts, f.Host(name, host(i)))
	}
	for _, name := range t.Switches {
		b.Switches = append(b.Switches, f.Switch(name))
	}
	at := func(p Plug) *myrinet.Port {
		if p.Host {
			return b.Hosts[p.Node]
		}
		return b.Switches[p.Node].Port(p.Port)
	}
	for _, c := range t.Cables {
		cable, err := f.Join(at(c.A), at(c.B))
		if err != nil {
			return nil, err
		}
		b.Cables = append(b.Cables, cable)
	}
	return b, nil
}

// draft is a topology under construction; each cable gets the lowest free ports.
type draft struct {
	Topology
	used []int // used ports of each switch
}

func newDraft(ports int) *draft { return &draft{Topology: Topology{Ports: ports}} }

func (d *draft) addSwitch(name string) int {
	d.Switches = append(d.Switches, name)
	d.used = append(d.used, 0)
	return len(d.Switches) - 1
}

func (d *draft) free(s int) bool { return d.used[s] < d.Ports }

func (d *draft) plug(s int) Plug {
	d.used[s]++
	return AtSwitch(s, d.used[s]-1)
}

func (d *draft) link(a, b int) { d.Cables = append(d.Cables, Join{d.plug(a), d.plug(b)}) }

func (d *draft) addHost(name string, s int) {
	d.Hosts = append(d.Hosts, name)
	d.Cables = append(d.Cables, Join{AtHost(len(d.Hosts) - 1), d.plug(s)})
}

// Line returns a row of switches, each joined to the next by a cable, with the given number of
// hosts at each switch.
func Line(ports, switches, hosts int) *Topology {
	d := newDraft(ports)
	for i := range switches {
		s := d.addSwitch(fmt.Sprintf("s%d", i))
		if i > 0 {
			d.link(s-1, s)
		}
		for range hosts {
			d.addHost(fmt.Sprintf("h%d", len(d.Hosts)), s)
		}
	}
	return &d.Topology
}

// NOW returns the fabric of figure 3 of VNT: 100 hosts and 40 switches of 8 ports. Three
// sub-clusters, each a fat tree, are joined by two switches and 11 cables.
func NOW() *Topology {
	d := newDraft(8)
	joiners := []int{d.addSwitch("j0"), d.addSwitch("j1")}
	for c, hosts := range []int{34, 33, 33} {
		name := string(rune('a' + c))
		var roots, middles, leaves []int
		for i := range []int{2, 2, 1}[c] {
			roots = append(roots, d.addSwitch(fmt.Sprintf("%sr%d", name, i)))
		}
		for i := range 4 {
			m := d.addSwitch(fmt.Sprintf("%sm%d", name, i))
			middles = append(middles, m)
			for _, r := range roots {
				d.link(m, r)
			}
		}
		for i := range 7 {
			l := d.addSwitch(fmt.Sprintf("%sl%d", name, i))
			leaves = append(leaves, l)
			for k := range 3 {
				d.link(l, middles[(i+k)%4])
			}
		}
		for i := range hosts {
			d.addHost(fmt.Sprintf("%s%02d", name, i), leaves[i%7])
		}
		for i := range []int{4, 4, 3}[c] {
			d.link(roots[i%len(roots)], joiners[i/len(roots)%2])
		}
	}
	return &d.Topology
}

// Random returns a connected network with the given number of switches and about the given number
// of hosts, with more cables than a tree. The same seed gives the same network.
func Random(seed uint64, ports, switches, hosts int) *Topology {
	rng := rand.New(rand.NewPCG(seed, 0x746f706f6c6f6779))
	d := newDraft(ports)
	for i := range switches {
		s := d.addSwitch(fmt.Sprintf("s%d", i))
		if others := d.withRoom(s); s > 0 && len(others) > 0 {
			d.link(others[rng.IntN(len(others))], s)
		}
	}
	for range switches {
		if a := d.withRoom(len(d.used)); len(a) > 1 {
			i := rng.IntN(len(a))
			d.link(a[i], a[(i+1+rng.IntN(len(a)-1))%len(a)])
		}
	}
	for i := range hosts {
		if a := d.withRoom(len(d.used)); len(a) > 0 {
			d.addHost(fmt.Sprintf("h%d", i), a[rng.IntN(len(a))])
		}
	}
	shuffle(rng, &d.Topology)
	return &d.Topology
}

// withRoom returns those of the first n switches that have a free port.
func (d *draft) withRoom(n int) (with []int) {
	for s := range n {
		if d.free(s) {
			with = append(with, s)
		}
	}
	return with
}

// shuffle permutes the port numbers of each switch.
func shuffle(rng *rand.Rand, t *Topology) {
	perms := make([][]int, len(t.Switches))
	for i := range perms {
		perms[i] = rng.Perm(t.Ports)
	}
	for i := range t.Cables {
		for _, p := range []*Plug{&t.Cables[i].A, &t.Cables[i].B} {
			if !p.Host {
				p.Port = perms[p.Node][p.Port]
			}
		}
	}
}

// Neighbors returns, for each switch, the other end of the cable at each port; Node is -1 at a free
// port.
func (t *Topology) Neighbors() [][]Plug {
	n := make([][]Plug, len(t.Switches))
	for i := range n {
		n[i] = slices.Repeat([]Plug{{Node: -1}}, t.Ports)
	}
	for _, c := range t.Cables {
		if !c.A.Host {
			n[c.A.Node][c.A.Port] = c.B
		}
		if !c.B.Host {
			n[c.B.Node][c.B.Port] = c.A
		}
	}
	return n
}

package plain_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/mdlayher/ethernet"
)

// fatTree is eight hosts, two at each of four switches, each of which has two cables up.
func fatTree() *topology.Topology {
	t := &topology.Topology{Ports: 8, Switches: []string{"l0", "l1", "l2", "l3", "r0", "r1"}}
	for i, name := range []string{"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"} {
		t.Hosts = append(t.Hosts, name)
		t.Cables = append(t.Cables, topology.Join{A: topology.AtHost(i), B: topology.AtSwitch(i/2, i%2)})
	}
	for leaf := range 4 {
		for root := range 2 {
			t.Cables = append(t.Cables, topology.Join{A: topology.AtSwitch(leaf, 6+root), B: topology.AtSwitch(4+root, leaf)})
		}
	}
	return t
}

// liveFabric builds a topology of live cables over simulated stations, with a process for
// each port of a switch and for each host, which waits on its link.
func liveFabric(t testing.TB, w *sim.World, top *topology.Topology, seed uint64) (hosts []transport.Link) {
	t.Helper()
	opts := myrinet.LiveOptions{Seed: seed + 1}
	ports := make([][]transport.Link, len(top.Switches))
	for i := range ports {
		ports[i] = make([]transport.Link, top.Ports)
	}
	hosts = make([]transport.Link, len(top.Hosts))
	for i, cable := range top.Cables {
		for _, p := range []topology.Plug{cable.A, cable.B} {
			s := w.StationWith(sim.StationOptions{Name: top.Name(p), EtherType: ethernet.EtherType(0x9000 + i), Ports: hardware.CablePorts})
			if !p.Host {
				ports[p.Node][p.Port] = s
				continue
			}
			m := plain.LiveMapper()
			m.Name, m.Seed = top.Hosts[p.Node], seed<<16+uint64(p.Node)
			l, err := plain.Join(s, &plain.Config{MAC: ethertype.MAC{2, 0, 0, 0, 1, byte(p.Node)}, Mapper: m}, opts)
			if err != nil {
				t.Fatal(err)
			}
			hosts[p.Node] = l
		}
	}
	for i, name := range top.Switches {
		sw, err := hardware.NewLiveSwitch(name, ports[i], opts)
		if err != nil {
			t.Fatal(err)
		}
		for k, link := range ports[i] {
			if link != nil {
				w.Go(top.Name(topology.AtSwitch(i, k)), func() { _ = sw.Drive(k) }) // until the world ends
			}
		}
	}
	for i, l := range hosts {
		w.Go(top.Hosts[i], func() {
			for l.Wait(transport.Forever) == nil {
			}
		})
	}
	return hosts
}

// TestFatTree: hosts of a fat tree that begin together all have routes to the others within
// one and a half seconds, of which up to one is the election, and the map is the truth.
func TestFatTree(t *testing.T) {
	for seed := range uint64(3) {
		w := sim.New(sim.Options{Seed: seed, Limit: time.Minute})
		began, top := w.Now(), fatTree()
		hosts := liveFabric(t, w, top, seed)
		mapped := func() (n int) {
			for _, l := range hosts {
				if snapshot(l).Stations == len(hosts)-1 {
					n++
				}
			}
			return n
		}
		for mapped() < len(hosts) {
			if err := w.Sleep(10 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		took, leaders := time.Duration(w.Now()-began), 0
		for i, l := range hosts {
			s := snapshot(l).Mapper
			if !s.Leading {
				continue
			}
			leaders++
			t.Logf("after %v: %s", took, s.Map.Summary())
			if says := mapper.Compare(&s.Map.Topology, top, top.Hosts[i]); len(says) > 0 {
				t.Errorf("seed %d: %q", seed, says)
			}
		}
		if leaders != 1 || took > 1500*time.Millisecond {
			t.Errorf("seed %d: %d hosts lead, after %v", seed, leaders, took)
		}
	}
}

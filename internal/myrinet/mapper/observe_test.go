package mapper

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestObserve: a host that observes finds the same map as the leader, gets its routes from
// it, and nobody follows it, although its identity is the lowest.
func TestObserve(t *testing.T) {
	top := topology.Line(8, 3, 3)
	options := defaults(seeds.First(), top)
	r, err := newRig(seeds.First(), top, myrinet.Options{}, func(i int) myrinet.MapperOptions {
		o := options(i)
		o.Observe = i == 0
		return o
	})
	if err == nil {
		err = r.settle(time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.run(10 * time.Second)
	if err := r.settled(); err != nil {
		t.Fatal(err)
	}
	leaders := r.Leaders()
	if len(leaders) != 1 || leaders[0] != 1 {
		t.Fatalf("hosts %v lead", leaders)
	}
	seen, led := r.Hosts[0].Agent.Snapshot(), r.Hosts[1].Agent.Snapshot()
	if seen.Map == nil || seen.Map.Topology.Text() != led.Map.Topology.Text() || seen.Leading || seen.Leader != HostID(1) {
		t.Errorf("the observer has %+v,\nthe leader %+v", seen, led)
	}
	if led.Yields != 0 || led.Elections != 1 || led.Changes != 1 {
		t.Errorf("the leader was disturbed: %+v", led.Stats)
	}
	for i, h := range r.Hosts {
		if st := h.Agent.stats; st.Dropped() != 0 || i > 1 && st.Elections != 0 {
			t.Errorf("host %d: %+v", i, st)
		}
	}
}

// TestManyProbes: with several probes under way the map is the same as with one, for all
// networks and whoever maps.
func TestManyProbes(t *testing.T) {
	for name, top := range topologies() {
		for _, mapper := range []int{0, len(top.Hosts) - 1} {
			one := (&oracle{t: top, mapper: mapper}).explore(1, 64)
			many := (&oracle{t: top, mapper: mapper, window: 8}).explore(1, 64)
			if many.broken || one.result().Topology.Text() != many.result().Topology.Text() {
				t.Errorf("%s from host %d: with 8 probes under way another map is found, broken: %v", name, mapper, many.broken)
			}
		}
	}
}

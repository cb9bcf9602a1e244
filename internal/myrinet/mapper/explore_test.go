package mapper

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestTruth: networks of all kinds are found as they are, in the simulated fabric.
func TestTruth(t *testing.T) {
	tops := topologies()
	delete(tops, "figure 3") // TestFigure3 has it
	for name, top := range tops {
		r, err := newRig(1, top, myrinet.Options{}, defaults(1, top))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.settle(time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		leader := r.Leaders()[0]
		m := r.Hosts[leader].Agent.Snapshot().Map
		if says := Compare(&m.Topology, top, top.Hosts[leader]); len(says) > 0 {
			t.Errorf("%s: %q", name, says)
		}
		t.Logf("%s: %d hosts, %d switches, %d cables: %d probes, %d lost, %v", name, len(m.IDs), len(m.Topology.Switches), len(m.Topology.Cables), m.Probes, m.Lost, m.Duration)
	}
}

// oracle answers probes as a fabric would that is never late.
type oracle struct {
	t      *topology.Topology
	w      *walker
	mapper int
	window int // probes under way, 0 for 1
	lose   func(request uint32) bool
	probes int

	refused int // probes with routes that no packet can have
}

// answer returns what comes back of a probe.
func (o *oracle) answer(route myrinet.Route, m message) (message, bool) {
	o.probes++
	if o.lose != nil && o.lose(m.request) {
		return m, false
	}
	_, to := o.w.walk(o.mapper, route)
	switch {
	case to < 0:
		return m, false
	case m.kind == echo:
		return m, to == o.mapper
	}
	if _, back := o.w.walk(to, m.back); back != o.mapper {
		return m, false
	}
	return message{kind: answer, request: m.request, host: HostID(to), name: o.t.Hosts[to]}, true
}

// deliver has answers come, the last one first.
func (o *oracle) deliver(req *requests, now int64, replies []message) {
	for i := range slices.Backward(replies) {
		req.answered(now, &replies[i])
	}
}

// explore explores the whole topology.
func (o *oracle) explore(tries, most int) *exploration {
	o.w = newWalker(o.t)
	req := &requests{window: max(o.window, 1), tries: tries, least: 1, most: 1}
	x := explore(req, identity{HostID(o.mapper), o.t.Hosts[o.mapper]}, o.t.Ports, most, ask)
	now := int64(1)
	for ; !x.advance(); now += 1 << 40 {
		req.expire(now)
		var replies []message
		for q := req.pop(now); q != nil; q = req.pop(now) {
			route, m := q.packet(q.try)
			m.request = q.id
			if route.Check() != nil {
				o.refused++
				continue
			}
			if reply, ok := o.answer(route, m); ok {
				replies = append(replies, reply)
			}
			if o.window <= 1 || len(req.flying) == o.window || len(req.waiting) == 0 {
				o.deliver(req, now, replies)
				replies = replies[:0]
			}
		}
		o.deliver(req, now, replies)
	}
	return x
}

// TestSameMap: the map does not depend on who looks.
func TestSameMap(t *testing.T) {
	for name, top := range topologies() {
		var first *Map
		for i := range min(len(top.Hosts), 8) {
			if !reach(top, plugs(top), top.Hosts[0])[i] {
				continue
			}
			x := (&oracle{t: top, mapper: i}).explore(1, 64)
			m := x.result()
			if says := Compare(&m.Topology, top, top.Hosts[i]); x.broken || len(says) > 0 {
				t.Fatalf("%s, from host %d: %q, broken: %v", name, i, says, x.broken)
			}
			if first == nil {
				first = m
			}
			if !reflect.DeepEqual(first.Topology, m.Topology) || !reflect.DeepEqual(first.IDs, m.IDs) {
				t.Errorf("%s: hosts 0 and %d do not see the same:\n%s\n%s", name, i, first.Topology.Text(), m.Topology.Text())
			}
		}
	}
}

// TestLostRequest: whichever request of a mapping stays without answer, the map has
// nothing that is not there: it is right, or lacks something, or is known to be wrong.
func TestLostRequest(t *testing.T) {
	right, lacking, broken := 0, 0, 0
	n := uint64(12)
	if !need.Full() {
		n = 4
	}
	for seed := range n {
		top := topology.Random(seed, 4+int(seed%3), 2+int(seed%6), 2+int(seed%7))
		all := &oracle{t: top}
		all.explore(1, 64)
		for lost := range uint32(all.probes) {
			x := (&oracle{t: top, lose: func(r uint32) bool { return r == lost+1 }}).explore(2, 64)
			if x.broken {
				broken++
				continue
			}
			says := Compare(&x.result().Topology, top, top.Hosts[0])
			for _, s := range says {
				if !strings.HasSuffix(s, "is not on the map") {
					t.Errorf("seed %d without request %d: %s", seed, lost, s)
				}
			}
			if len(says) == 0 {
				right++
			} else {
				lacking++
			}
		}
	}
	t.Logf("%d maps right, %d lack something, %d known to be wrong", right, lacking, broken)
}

// TestLostProbes: where one probe in ten is lost, mappings end, and come out right with
// a few tries.
func TestLostProbes(t *testing.T) {
	right, n := 0, 200
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 3))
		top := topology.Random(seed, 8, 1+int(seed%10), 2+int(seed%20))
		x := (&oracle{t: top, lose: func(uint32) bool { return rng.IntN(10) == 0 }}).explore(4, 64)
		if !x.broken && len(Compare(&x.result().Topology, top, top.Hosts[0])) == 0 {
			right++
		}
	}
	if right < n*9/10 {
		t.Errorf("%d of %d maps are right", right, n)
	}
}

// TestGrowth prints how many probes mapping takes, and checks that they grow not faster
// than the square of the number of switches.
func TestGrowth(t *testing.T) {
	mean := map[int]float64{}
	times := uint64(10)
	if !need.Full() {
		times = 3
	}
	for _, n := range []int{5, 10, 20, 40, 80} {
		for seed := range times {
			top := topology.Random(seed, 8, n, 5*n/2)
			o := &oracle{t: top}
			if x := o.explore(3, 100); x.broken || len(x.switches) != n {
				t.Fatalf("%d switches, seed %d: found %d", n, seed, len(x.switches))
			}
			mean[n] += float64(o.probes) / float64(times)
		}
		t.Logf("%d switches: %.0f probes, %.1f for each pair", n, mean[n], mean[n]/float64(n*n))
	}
	if mean[80] > 16*mean[20] {
		t.Errorf("four times as many switches take %.1f times as many probes", mean[80]/mean[20])
	}
}

// TestFigure3 prints what mapping the paper's fabric takes when nobody else sends.
func TestFigure3(t *testing.T) {
	top := topology.NOW()
	r, err := newRig(1, top, myrinet.Options{}, func(i int) myrinet.MapperOptions {
		o := defaults(1, top)(i)
		if i > 0 {
			o.Period = time.Hour // these follow
		}
		return o
	})
	if err == nil {
		err = r.settle(time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := r.Hosts[0].Agent.Snapshot()
	if s.Maps == 0 || len(s.Map.Topology.Switches) != 40 || len(s.Map.IDs) != 100 {
		t.Fatalf("%+v", s)
	}
	t.Logf("40 switches, 100 hosts: %d probes, of which %d lost, %v", s.Map.Probes, s.Map.Lost, s.Map.Duration)
}

// TestNoRoom: hosts and switches beyond the limits are left out, and counted.
func TestNoRoom(t *testing.T) {
	top := topology.Line(20, 16, 17)
	x := (&oracle{t: top}).explore(1, 64)
	m := x.result()
	if len(m.IDs) != MaxHosts || m.TooMany != 16*17-MaxHosts || x.broken {
		t.Errorf("%d hosts, %d too many", len(m.IDs), m.TooMany)
	}
	top = topology.Line(4, 70, 1)
	m = (&oracle{t: top}).explore(1, 64).result()
	if len(m.Topology.Switches) != 64 || m.Beyond != 1 {
		t.Errorf("%d switches, %d links beyond", len(m.Topology.Switches), m.Beyond)
	}
}

// TestDepth: what is farther away than a probe can turn back from is left out.
func TestDepth(t *testing.T) {
	top := topology.Line(4, 140, 1)
	o := &oracle{t: top}
	x := o.explore(1, 1000)
	if o.refused > 0 {
		t.Errorf("%d probes have routes that no packet can have", o.refused)
	}
	if x.broken || x.beyond != 1 || len(x.switches) != maxWayTurns+1 {
		t.Errorf("%d switches, %d beyond", len(x.switches), x.beyond)
	}
}

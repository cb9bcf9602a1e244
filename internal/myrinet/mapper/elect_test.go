package mapper

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// settledRig is a network that is mapped and routed.
func settledRig(t *testing.T, top *topology.Topology) *rig {
	t.Helper()
	r, err := newRig(seeds.First(), top, myrinet.Options{}, defaults(seeds.First(), top))
	if err == nil {
		err = r.settle(time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) installed() (n uint64) {
	for _, h := range r.Hosts {
		n += h.Agent.stats.Installed + h.Agent.stats.Cleared
	}
	return n
}

// TestLeaderDies: another host takes over, and the dead one disappears from the routes;
// when it comes back it gets routes again.
func TestLeaderDies(t *testing.T) {
	r := settledRig(t, topology.Line(8, 3, 3))
	for range 5 {
		leader := r.Leaders()[0]
		r.Hosts[leader].Stop()
		if err := r.settle(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		next := r.Leaders()[0]
		m := r.Hosts[next].Agent.Snapshot().Map
		if next == leader || slices.Contains(m.IDs, HostID(leader)) {
			t.Fatalf("host %d is dead, %d leads, the map has %v", leader, next, m.IDs)
		}
		if err := r.Hosts[leader].Start(defaults(99, r.Topology)(leader)); err != nil {
			t.Fatal(err)
		}
		if err := r.settle(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoutesOutliveLeaders: a new leader of the same network gives out the same routes,
// so that it changes none.
func TestRoutesOutliveLeaders(t *testing.T) {
	r := settledRig(t, topology.Random(3, 8, 6, 12))
	r.run(5 * time.Second)
	before := r.installed()
	for i := range r.Hosts {
		a := r.Hosts[i].Agent
		if !a.isLeading {
			a.takeOver(r.w.Now())
			r.Hosts[i].pump()
		}
		r.run(3 * time.Second)
		if err := r.settle(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if after := r.installed(); after != before {
		t.Errorf("%d cards were told other routes", after-before)
	}
	if leaders := r.Leaders(); leaders[0] != 0 {
		t.Errorf("hosts %v lead, not the one with the lowest identity", leaders)
	}
}

// TestPartsJoin: each part of a network that is cut has a leader and routes; when it is
// whole again one of the leaders yields.
func TestPartsJoin(t *testing.T) {
	r := settledRig(t, topology.Line(8, 2, 3))
	for i, c := range r.Topology.Cables {
		if !c.A.Host && !c.B.Host {
			for range 3 {
				r.Built.Cables[i].Cut()
				if err := r.settle(20 * time.Second); err != nil {
					t.Fatal(err)
				}
				if n := len(r.Leaders()); n != 2 {
					t.Fatalf("%d leaders", n)
				}
				r.Built.Cables[i].Mend()
				if err := r.settle(20 * time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestUnsafeRoutes: routes of which the leader does not know are withdrawn before it
// writes its own, because together they could deadlock.
func TestUnsafeRoutes(t *testing.T) {
	top, around := ring()
	r := settledRig(t, top)
	for i, row := range around {
		var entries []myrinet.HostRoute
		for k, route := range row {
			if route != nil {
				entries = append(entries, myrinet.HostRoute{To: HostID(k), Turns: route})
			}
		}
		r.Hosts[i].Agent.setRoutes(entries)
	}
	if r.settled() == nil {
		t.Fatal("there is nothing to be mended")
	}
	if err := r.settle(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if s := r.Hosts[r.Leaders()[0]].Agent.Snapshot(); s.Withdrawn == 0 {
		t.Errorf("nothing was withdrawn: %+v", s.Stats)
	}
}

// TestLiar: a host that says that it follows a leader which does not exist cannot keep
// the others from mapping.
func TestLiar(t *testing.T) {
	r := settledRig(t, topology.Line(8, 1, 5))
	liar := r.Hosts[2].Agent
	liar.isLeading, liar.leader, liar.heard = false, ethertype.MAC{0, 0, 0, 0, 0, 1}, 1<<60
	r.run(20 * time.Second)
	leaders := r.Leaders()
	if len(leaders) != 1 {
		t.Fatalf("leaders %v", leaders)
	}
	lead := r.Hosts[leaders[0]].Agent
	before := lead.stats.Maps
	r.run(5 * time.Second)
	if lead.stats.Maps < before+3 || lead.stats.Yields+lead.stats.Elections == 0 {
		t.Errorf("it does not map: %+v", lead.stats)
	}
	if liar.stats.DropRefused == 0 {
		t.Error("the liar has not refused the leader's orders")
	}
}

// TestTwice: two hosts have one identity. Whoever leads, one of the two even, counts it,
// the others keep their routes, and nothing flaps.
func TestTwice(t *testing.T) {
	top := topology.Line(8, 2, 3)
	for leader := range top.Hosts {
		options := defaults(1, top)
		r, err := newRig(1, top, myrinet.Options{}, func(i int) myrinet.MapperOptions {
			o := options(i)
			if i == 4 {
				o.ID = HostID(1)
			}
			return o
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Hosts[leader].Agent.takeOver(r.w.Now())
		r.Hosts[leader].pump()
		r.run(20 * time.Second)
		before := r.installed()
		r.run(20 * time.Second)
		if after := r.installed(); after != before {
			t.Errorf("%d leads: routes have changed %d times", leader, after-before)
		}
		var twice uint64
		for _, h := range r.Hosts {
			twice += h.Agent.stats.Twice
		}
		if twice == 0 || len(r.Leaders()) != 1 {
			t.Errorf("%d leads: it was counted %d times, leaders %v", leader, twice, r.Leaders())
		}
		for _, pair := range [][2]int{{0, 2}, {2, 3}, {3, 5}, {5, 0}} {
			route := r.Hosts[pair[0]].routes[HostID(pair[1])]
			if to, _ := Walk(top, pair[0], route); route == nil || to != pair[1] {
				t.Errorf("%d leads: host %d: route %v to %d leads to %d", leader, pair[0], route, pair[1], to)
			}
		}
	}
}

// TestHostile: an agent takes any messages of any hosts, counts those that it does not
// use, and keeps little.
func TestHostile(t *testing.T) {
	var sum Stats
	seeds.Each(t, 200, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 5))
		a, err := New(1, myrinet.MapperOptions{ID: HostID(3), Seed: seed}, nil)
		if err != nil {
			return err
		}
		now := int64(1)
		for range 2000 {
			now += rng.Int64N(1e8)
			a.Receive(now, hostile(rng, a).append(nil))
			if now >= a.Next() {
				a.Poll(now)
			}
			for range rng.IntN(3) {
				a.Packet(now)
			}
			if len(a.outbox) > maxOutbox || len(a.table) > MaxHosts || len(a.distrusted) > maxDistrusted || a.parts.hosts > MaxHosts {
				t.Fatalf("seed %d: it keeps %d answers, %d routes, %d names, %d entries", seed, len(a.outbox), len(a.table), len(a.distrusted), a.parts.hosts)
			}
		}
		s := a.stats
		sum.DropLate += s.DropLate
		sum.DropStray += s.DropStray
		sum.DropRefused += s.DropRefused
		sum.DropInvalid += s.DropInvalid
		sum.Claimed += s.Claimed
		sum.Installed += s.Installed
		return nil
	})
	if sum.DropLate == 0 || sum.DropStray == 0 || sum.DropRefused == 0 || sum.DropInvalid == 0 || sum.Claimed == 0 || sum.Installed == 0 {
		t.Errorf("not all was tried: %+v", sum)
	}
}

// hostile is a message that may answer one of the agent's requests, or order something.
func hostile(rng *rand.Rand, a *Agent) *message {
	m := &message{kind: kind(1 + rng.IntN(int(kinds)-1)), mapper: HostID(rng.IntN(6)), token: a.lead.token, request: a.lead.req.lastID,
		host: HostID(rng.IntN(6)), leader: HostID(rng.IntN(6)), digest: rng.Uint64N(3), back: make(myrinet.Route, rng.IntN(5))}
	if rng.IntN(2) == 0 {
		m.mapper = a.opts.ID
	}
	if rng.IntN(4) == 0 {
		m.token++
	}
	if m.kind == install {
		m.parts = uint8(1 + rng.IntN(3))
		m.part = uint8(rng.IntN(int(m.parts)))
		for i := range rng.IntN(4) {
			m.entries = append(m.entries, myrinet.HostRoute{To: HostID(i), Turns: myrinet.Route{1}})
		}
		if m.parts == 1 && rng.IntN(2) == 0 {
			m.digest = digest(m.entries)
		}
	}
	return m
}

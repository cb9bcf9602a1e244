package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// ringOf is n switches in a ring, port 0 to the next, port 1 to the one before, with a card
// at port 2 of each.
func ringOf(n int) *topology.Topology {
	top := &topology.Topology{Ports: 8}
	for i := range n {
		top.Switches = append(top.Switches, fmt.Sprint("s", i))
		top.Hosts = append(top.Hosts, fmt.Sprint("h", i))
		top.Cables = append(top.Cables, topology.Join{A: topology.AtSwitch(i, 0), B: topology.AtSwitch((i+1)%n, 1)}, topology.Join{A: topology.AtHost(i), B: topology.AtSwitch(i, 2)})
	}
	return top
}

// TestLiveDeadlock: packets in a ring that are longer than all buffers wait for each other.
// They are broken, and the fabric works as before.
func TestLiveDeadlock(t *testing.T) {
	r := newLiveRig(t, sim.Options{Seed: 1, MTU: 256}, myrinet.LiveOptions{}, ringOf(4))
	r.run(time.Second)
	for _, c := range r.cards {
		for range 4 {
			c.send(AppendPacket(nil, around(3), 1, payload(60000)))
		}
	}
	r.run(400 * time.Millisecond)
	for i, c := range r.cards {
		if len(c.got) != 0 {
			t.Fatalf("card %d: there is no deadlock", i)
		}
	}
	r.run(time.Minute)
	cut := 0
	for i, c := range r.cards {
		for k := range c.got {
			if !c.whole[k] {
				cut++
			} else if _, _, err := ParsePacket(c.got[k]); err != nil {
				t.Errorf("card %d: a whole packet: %v", i, err)
			}
		}
	}
	if cut == 0 {
		t.Error("nothing arrived truncated")
	}
	if err := errors.Join(r.account(), r.works(ringOf(4))); err != nil {
		t.Error(err)
	}
}

// TestLiveBlocked: a card without room blocks what is behind, and nothing is lost if it
// has room before the time-out; a packet that waits longer is broken, arrives truncated or
// not at all, and what is behind it for another card arrives.
func TestLiveBlocked(t *testing.T) {
	top := topology.Line(8, 2, 2)
	r := newLiveRig(t, sim.Options{Seed: 1, MTU: 256}, myrinet.LiveOptions{Timeout: 100 * time.Millisecond}, top)
	r.run(time.Second)
	a, b := r.cards[0], r.cards[2]
	route, _ := treeRoute(top, 0, 2)
	aside, _ := treeRoute(top, 0, 3)
	b.full = true
	for range 8 {
		a.send(AppendPacket(nil, route, 1, payload(40000)))
	}
	a.send(AppendPacket(nil, aside, 1, payload(10)))
	r.run(80 * time.Millisecond)
	if len(b.got)+len(r.cards[3].got) != 0 || a.end.n == 0 {
		t.Fatalf("nothing is blocked: %+v", a.end.Snapshot())
	}
	b.full = false
	b.end.Resume()
	r.run(time.Second)
	if len(b.got) != 8 || len(r.cards[3].got) != 1 {
		t.Fatalf("%d and %d packets came: %+v", len(b.got), len(r.cards[3].got), r.switches[0].Ports())
	}
	b.full = true
	for range 3 {
		a.send(AppendPacket(nil, route, 1, payload(60000)))
	}
	a.send(AppendPacket(nil, aside, 1, payload(10)))
	r.run(20 * time.Second)
	if len(b.got) != 8 || len(r.cards[3].got) != 2 {
		t.Fatalf("%d and %d packets came: %+v", len(b.got), len(r.cards[3].got), r.switches[0].Ports())
	}
	if st := b.end.Snapshot().Packets; st.Truncated == 0 || st.Blocked == 0 || st.BlockedNanos == 0 {
		t.Errorf("nothing is counted as broken: %+v", st)
	}
	b.full = false
	b.end.Resume()
	if err := errors.Join(r.account(), r.works(top)); err != nil {
		t.Error(err)
	}
}

// TestLiveRestart: a switch that vanishes with packets in it, and one in its place, whether
// the neighbours have noticed before or not: packets pass again, and nothing is left.
func TestLiveRestart(t *testing.T) {
	for _, away := range []time.Duration{0, time.Minute} {
		top := topology.Line(8, 1, 3)
		r := newLiveRig(t, sim.Options{Seed: 1}, myrinet.LiveOptions{}, top)
		r.run(time.Second)
		for i := range 3 {
			for range 20 {
				route, _ := treeRoute(top, i, (i+1)%3)
				r.cards[i].send(AppendPacket(nil, route, 1, payload(30000)))
			}
		}
		r.run(200 * time.Microsecond)
		old := r.switches[0]
		var links []transport.Link
		for i := range top.Ports {
			p := old.port[i]
			if p == nil {
				links = append(links, nil)
				continue
			}
			r.w.Kill(p.link.(*sim.Station))
			links = append(links, r.w.StationWith(sim.StationOptions{MAC: p.self.MAC, EtherType: p.typ, Ports: CablePorts}))
		}
		r.run(away)
		if up := r.cards[0].end.Up(); up != (away == 0) {
			t.Errorf("after %v the neighbour is up: %v", away, up)
		}
		r.switches = nil
		r.opts.Seed++ // a restart is another incarnation
		r.addSwitch("again", links)
		r.run(time.Minute)
		if err := r.works(top); err != nil {
			t.Errorf("away for %v: %v", away, err)
		}
		for i, c := range r.cards {
			if st := c.end.Snapshot(); !st.Up || st.Frames.Sessions != 2 || st.Buffered != 0 || st.Credit < 32 {
				t.Errorf("away for %v: card %d: %+v", away, i, st)
			}
		}
	}
}

// TestLiveStranger: a third station on the segment of a cable gets no answer, whatever it
// sends, and disturbs nobody; one that takes an end's address cannot end the session
// without hearing it. When the neighbour is gone for good, the stranger takes its place.
func TestLiveStranger(t *testing.T) {
	top := topology.Line(8, 1, 2)
	r := newLiveRig(t, sim.Options{Seed: 1}, myrinet.LiveOptions{}, top)
	r.run(time.Second)
	a, b := r.cards[0].end, r.cards[1]
	s := r.w.StationWith(sim.StationOptions{Name: "stranger", EtherType: a.typ, Ports: CablePorts})
	views := make([][]byte, 64)
	answers := 0
	for i := range 1000 {
		for _, from := range []ethertype.Addr{{MAC: s.MAC(), Port: 1}, a.peer} {
			for _, kind := range []framing.FabricKind{framing.FabricHello, framing.FabricPacket, framing.FabricCredit, framing.FabricBreak} {
				h := framing.FabricHeader{
					Dst: a.self.MAC, DstPort: 1, Src: from.MAC, SrcPort: from.Port, Type: a.typ, Kind: kind,
					Tag: uint32(i), Seq: ethertype.Seq(i), Length: 100, Offset: 50,
				}
				f := transport.Frame{Head: make([]byte, ethertype.HeaderSize)}
				if kind == framing.FabricPacket {
					h.Size, f.Body = 50, [][]byte{make([]byte, 50)}
				}
				h.Put(f.Head)
				s.Send([]transport.Frame{f})
			}
		}
		r.cards[0].send(AppendPacket(nil, myrinet.Route{1}, 1, payload(3000)))
		r.run(time.Millisecond)
		n, _ := s.Recv(views)
		answers += n
	}
	r.run(time.Second)
	st := a.Snapshot()
	if len(b.got) != 1000 || st.Frames.Sessions != 1 || st.Frames.Strangers < 3990 || st.Frames.Stale < 3000 || answers != 0 {
		t.Fatalf("%d packets came, %d answers: %+v", len(b.got), answers, st)
	}
	if err := r.account(); err != nil {
		t.Error(err)
	}
}

// TestLiveEavesdropper: a station that has heard all greetings to everybody, and greets an end in
// the name of its neighbour with the numbers in them, does not end the session.
func TestLiveEavesdropper(t *testing.T) {
	top := topology.Line(8, 1, 2)
	r := newLiveRig(t, sim.Options{Seed: 1}, myrinet.LiveOptions{}, top)
	a, b := r.cards[0].end, r.cards[1]
	s := r.w.StationWith(sim.StationOptions{Name: "stranger", EtherType: a.typ, Ports: CablePorts})
	views, heard := make([][]byte, 64), map[ethertype.Addr]uint32{}
	for range 1000 {
		r.run(time.Millisecond)
		for n, _ := s.Recv(views); n > 0; n, _ = s.Recv(views) {
			for _, v := range views[:n] {
				var h framing.FabricHeader
				if _, err := h.ParseBegin(v, 0); err != nil || h.Kind != framing.FabricHello {
					t.Fatal(h.Kind, err)
				}
				heard[ethertype.Addr{MAC: h.Src, Port: h.SrcPort}] = h.Tag
			}
		}
	}
	if !a.up || heard[a.self] == 0 {
		t.Fatalf("up %v, and %d ends were heard", a.up, len(heard))
	}
	for i := range 1000 {
		for _, tag := range []uint32{heard[a.peer], uint32(i + 1)} {
			h := framing.FabricHeader{
				Dst: a.self.MAC, DstPort: a.self.Port, Src: a.peer.MAC, SrcPort: a.peer.Port, Type: a.typ, Kind: framing.FabricHello,
				Tag: max(tag, 1), Packet: ethertype.Seq(heard[a.self]), Seq: 1 << 30, Length: 4096, Offset: 1000,
			}
			f := transport.Frame{Head: make([]byte, ethertype.HeaderSize)}
			h.Put(f.Head)
			s.Send([]transport.Frame{f})
		}
		r.cards[0].send(AppendPacket(nil, myrinet.Route{1}, 1, payload(3000)))
		r.run(time.Millisecond)
	}
	r.run(time.Second)
	if st := a.Snapshot(); len(b.got) != 1000 || st.Frames.Sessions != 1 {
		t.Fatalf("%d packets came: %+v", len(b.got), st)
	}
	if err := r.account(); err != nil {
		t.Error(err)
	}
}

// TestLiveThird: of three ends on one segment two find each other, and the third one is
// found when one of them is gone.
func TestLiveThird(t *testing.T) {
	for seed := range uint64(20) {
		w := sim.New(sim.Options{Seed: seed, Jitter: 30 * time.Millisecond, Limit: time.Hour})
		r := &liveRig{TB: t, w: w, opts: myrinet.LiveOptions{Seed: seed + 1}}
		for i := range 3 {
			name := fmt.Sprint("c", i)
			r.addCard(name, w.StationWith(sim.StationOptions{Name: name, EtherType: ethertype.Fabric, Ports: CablePorts}))
		}
		r.run(10 * time.Second)
		var up []*liveCard
		for _, c := range r.cards {
			if c.end.Up() {
				up = append(up, c)
			}
		}
		if len(up) != 2 || up[0].end.peer != up[1].end.self {
			t.Fatalf("seed %d: %d ends are up", seed, len(up))
		}
		w.Kill(up[0].end.Link().(*sim.Station))
		r.run(10 * time.Second)
		for _, c := range r.cards {
			if c != up[0] && !c.end.Up() {
				t.Errorf("seed %d: an end has no neighbour", seed)
			}
		}
	}
}

// TestLiveStorm: packets with routes that lead anywhere, over frames with all faults, while
// cables are cut, switches restart and cards have no room: all is counted, nothing stays
// blocked, and at the end the fabric works.
func TestLiveStorm(t *testing.T) {
	seeds.Each(t, 100, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 4))
		top := topology.Random(seed, 8, 1+rng.IntN(4), 2+rng.IntN(8))
		if len(top.Hosts) < 2 {
			return nil
		}
		so := sim.Options{Seed: seed, MTU: []int{256, 1500}[rng.IntN(2)], Dup: 0.01, Reorder: 0.01, Loss: 0.01, Corrupt: 0.01}
		r := newLiveRig(t, so, myrinet.LiveOptions{Timeout: 10 * time.Millisecond, Silence: 400 * time.Millisecond}, top)
		r.run(time.Second)
		for range 80 {
			c := r.cards[rng.IntN(len(r.cards))]
			route := make(myrinet.Route, rng.IntN(12))
			for i := range route {
				route[i] = int8(rng.IntN(15) - 7)
			}
			c.send(AppendPacket(nil, route, 1, payload(rng.IntN(1+rng.IntN(20000)))))
			r.weather(rng)
			r.run(time.Duration(rng.IntN(10_000_000)))
		}
		r.w.Heal()
		for _, c := range r.cards {
			c.full = false
			c.end.Resume()
		}
		r.run(3 * time.Second)
		if err := r.onlyPayloads(); err != nil {
			return err
		}
		if err := r.account(); err != nil && !strings.Contains(err.Error(), "were dropped") { // a restarted switch has counted for nobody
			return err
		}
		return r.works(top)
	})
}

// onlyPayloads returns an error if more whole packets with a CRC-8 that matches are none
// that was sent than CRC-8 can miss: all that is sent is the same bytes, cut at different
// lengths.
func (r *liveRig) onlyPayloads() error {
	missed := 0
	for _, c := range r.cards {
		for k, p := range c.got {
			if _, data, err := ParsePacket(p); err == nil && c.whole[k] && !bytes.Equal(data, payload(len(data))) {
				missed++
			}
		}
	}
	if missed > 1 {
		return fmt.Errorf("%d packets are changed and have a CRC-8 that matches", missed)
	}
	return nil
}

// weather changes something now and then.
func (r *liveRig) weather(rng *rand.Rand) {
	if c := r.cards[rng.IntN(len(r.cards))]; rng.IntN(4) == 0 {
		c.full = !c.full
		c.end.Resume()
	}
	if rng.IntN(8) == 0 {
		if rng.IntN(3) == 0 {
			r.w.Heal()
		} else {
			r.w.Isolate(r.stations[rng.IntN(len(r.stations))])
		}
	}
	if i := rng.IntN(len(r.switches)); rng.IntN(20) == 0 {
		r.restart(i)
	}
}

// restart has a switch vanish, and another one be in its place.
func (r *liveRig) restart(i int) {
	old := r.switches[i]
	links := make([]transport.Link, len(old.port))
	for k, p := range old.port {
		if p != nil {
			r.w.Kill(p.link.(*sim.Station))
			s := r.w.StationWith(sim.StationOptions{MAC: p.self.MAC, EtherType: p.typ, Ports: CablePorts})
			r.stations = append(r.stations, s)
			links[k] = s
		}
	}
	r.opts.Seed++
	last := len(r.switches)
	r.switches[i] = r.addSwitch(old.name, links)
	r.switches = r.switches[:last]
}

// TestReplug: a port whose link has gone drops what comes for it, the others go on; with
// another link, of another address and MTU, packets pass again.
func TestReplug(t *testing.T) {
	top := topology.Line(8, 1, 3)
	r := newLiveRig(t, sim.Options{Seed: 1, MTU: 1500}, myrinet.LiveOptions{}, top)
	r.run(time.Second)
	route := func(from, to int) myrinet.Route {
		way, _ := treeRoute(top, from, to)
		return way
	}
	for range 40 {
		r.cards[0].send(AppendPacket(nil, route(0, 2), 1, payload(30_000)))
		r.cards[2].send(AppendPacket(nil, route(2, 1), 1, payload(30_000)))
	}
	r.run(200 * time.Microsecond)
	sw, card := r.switches[0], r.cards[2]
	port := portOf(sw, card)
	before := len(card.got)
	old := sw.port[port].link.(*sim.Station)
	old.Close()
	sw.Unplug(port)
	for range 10 {
		r.cards[0].send(AppendPacket(nil, route(0, 2), 1, payload(30_000)), AppendPacket(nil, route(0, 1), 7, payload(30_000)))
	}
	aside := len(r.cards[1].got)
	r.run(time.Second)
	if n := len(r.cards[1].got) - aside; n < 10 || sw.up(port) || sw.Ports()[port].Neighbor != "" {
		t.Fatalf("%d packets came to another host: %+v", n, sw.Ports()[port])
	}
	if sw.Ports()[portOf(sw, r.cards[0])].Packets.NoCable == 0 || len(card.got) > before+4 { // 64 frames were on the cable
		t.Errorf("%d packets came by a port without a link", len(card.got)-before)
	}
	next := r.w.StationWith(sim.StationOptions{Name: "next", EtherType: sw.port[port].typ, Ports: CablePorts, MTU: 9000})
	if err := sw.Replug(port, next); err != nil {
		t.Fatal(err)
	}
	r.w.Go("next", func() { sw.Drive(port) })
	r.run(10 * time.Second)
	if err := r.works(top); err != nil {
		t.Error(err)
	}
	if err := sw.Replug(7, next); err == nil || !strings.Contains(err.Error(), "no cable at port 7") {
		t.Errorf("a port that has no cable: %v", err)
	}
	if err := sw.Replug(portOf(sw, r.cards[0]), next); err == nil || !strings.Contains(err.Error(), "the same address") {
		t.Errorf("a link that another port has: %v", err)
	}
}

// portOf is the port that a card is plugged into.
func portOf(sw *LiveSwitch, c *liveCard) int {
	return slices.IndexFunc(sw.port, func(p *livePort) bool { return p != nil && p.peer == c.end.self })
}

// TestLiveHostGone: a host that vanishes while packets come for it costs those; what is for
// others passes, also behind them on the same cables, and nothing stays in the switches.
func TestLiveHostGone(t *testing.T) {
	top := topology.Line(8, 2, 2)
	r := newLiveRig(t, sim.Options{Seed: 1}, myrinet.LiveOptions{}, top)
	r.run(time.Second)
	gone, _ := treeRoute(top, 0, 2)
	aside, _ := treeRoute(top, 0, 3)
	other, _ := treeRoute(top, 1, 3)
	for range 20 {
		r.cards[0].send(AppendPacket(nil, gone, 1, payload(40_000)), AppendPacket(nil, aside, 2, payload(40_000)))
		r.cards[1].send(AppendPacket(nil, other, 3, payload(40_000)))
	}
	r.run(300 * time.Microsecond)
	r.w.Kill(r.cards[2].end.link.(*sim.Station))
	r.run(time.Minute)
	if n := len(r.cards[3].got); n != 40 {
		t.Errorf("%d packets of 40 came to the other host: %+v", n, r.switches[0].Ports())
	}
	if n := len(r.cards[2].got); n == 20 {
		t.Error("the host has got everything before it vanished")
	}
	for _, s := range r.switches {
		for i, p := range s.port {
			if p == nil {
				continue
			}
			if err := atRest(&p.cableEnd); err != nil || s.x.User(i) >= 0 {
				t.Errorf("%v:%d: %v", s, i, err)
			}
		}
	}
}

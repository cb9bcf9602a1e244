package myrinet_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

var seeds = seedtest.Flags("transport/myrinet", 10)

// ring is n switches in a ring, port 0 to the next, port 1 to the one before, with a card
// at port 2 of each.
func ring(r *rig, n int) (cards []*sink, switches []*myrinet.Switch, cables []*myrinet.Cable) {
	for i := range n {
		switches = append(switches, r.Switch(fmt.Sprint("s", i)))
	}
	for i, s := range switches {
		cables = append(cables, r.join(s.Port(0), switches[(i+1)%n].Port(1)))
		cards = append(cards, r.card(fmt.Sprint("h", i), s.Port(2)))
	}
	return cards, switches, cables
}

// around is the route from a card of the ring over so many links to another one.
func around(links int) myrinet.Route {
	route := myrinet.Route{-2}
	for range links - 1 {
		route = append(route, -1)
	}
	return append(route, 1)
}

// TestDeadlock: four packets in a ring, each longer than all buffers, each wait for the
// link that the next one holds. They are broken, arrive truncated, and the fabric works
// as before.
func TestDeadlock(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	cards, _, _ := ring(r, 4)
	for _, c := range cards {
		c.send(hardware.AppendPacket(nil, around(3), 1, payload(20000)))
	}
	r.run(40 * time.Millisecond)
	for i, c := range cards {
		if len(c.got) != 0 || c.sent != 0 {
			t.Fatalf("card %d: there is no deadlock", i)
		}
	}
	r.run(200 * time.Millisecond)
	st := r.Stats()
	if st.DeliveredTruncated+st.Ports.TimedOut == 0 || st.DeliveredTruncated == 0 || st.Ports.Truncated == 0 {
		t.Errorf("nothing arrived truncated: %+v", st)
	}
	for i, c := range cards {
		if c.sent != 1 {
			t.Errorf("card %d has not got rid of its packet", i)
		}
		for k, whole := range c.whole {
			if _, _, err := hardware.ParsePacket(c.got[k]); !whole && err == nil {
				t.Errorf("card %d: what is truncated has a CRC-8 that matches", i)
			}
		}
	}
	r.account()
	cards[0].got = nil
	cards[3].send(hardware.AppendPacket(nil, around(1), 1, payload(20000)))
	r.run(time.Millisecond)
	if len(cards[0].got) != 1 {
		t.Error("the fabric does not work afterwards")
	}
}

// TestShortDeadlock: packets that fit the buffers hold no link that could be freed. Those
// that stay blocked are dropped, and the fabric works as before.
func TestShortDeadlock(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	cards, _, _ := ring(r, 4)
	for range 20 {
		for _, c := range cards {
			c.send(hardware.AppendPacket(nil, around(3), 1, payload(120)))
		}
	}
	r.run(10 * time.Second)
	r.account()
	st := r.Stats()
	t.Logf("%+v", st)
	if st.Delivered == 0 {
		t.Error("nothing was delivered")
	}
}

func TestNoWay(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	s := r.Switch("s")
	a, b := r.card("a", s.Port(0)), r.card("b", s.Port(5))
	lonely := &sink{world: r.w}
	lonely.port = r.Host("lonely", lonely)
	a.send(hardware.AppendPacket(nil, myrinet.Route{}, 1), hardware.AppendPacket(nil, myrinet.Route{-1}, 1), hardware.AppendPacket(nil, myrinet.Route{8}, 1),
		hardware.AppendPacket(nil, myrinet.Route{3}, 1), hardware.AppendPacket(nil, myrinet.Route{5, 1, 1}, 1), hardware.AppendPacket(nil, myrinet.Route{0}, 7))
	lonely.send(hardware.AppendPacket(nil, myrinet.Route{1}, 1))
	r.run(time.Millisecond)
	p := s.Port(0).Stats()
	if p.NoRoute != 1 || p.BadTurn != 2 || p.NoCable != 1 || lonely.port.Stats().NoCable != 1 {
		t.Errorf("drops are counted as %+v", p)
	}
	if len(b.got) != 1 || len(a.got) != 1 {
		t.Fatalf("%d and %d packets came", len(b.got), len(a.got))
	}
	if _, _, err := hardware.ParsePacket(b.got[0]); !errors.Is(err, hardware.ErrRouted) {
		t.Errorf("a packet with route left: %v", err)
	}
	if typ, _, err := hardware.ParsePacket(a.got[0]); typ != 7 || err != nil {
		t.Errorf("a packet that goes back: type %d, %v", typ, err)
	}
	r.account()
}

// TestCut: what a cut cable carries is lost, or arrives truncated if its head is beyond;
// when it is mended packets pass.
func TestCut(t *testing.T) {
	for _, after := range []time.Duration{10, 300, 400, 1000, 20_000} {
		r := newRig(t, myrinet.Options{})
		s0, s1 := r.Switch("s0"), r.Switch("s1")
		cable := r.join(s0.Port(1), s1.Port(0))
		a, b := r.card("a", s0.Port(0)), r.card("b", s1.Port(1))
		a.send(hardware.AppendPacket(nil, myrinet.Route{1, 1}, 1, payload(4096)), hardware.AppendPacket(nil, myrinet.Route{1, 1}, 2, payload(10)))
		r.run(after)
		cable.Cut()
		r.run(time.Millisecond)
		r.account()
		st := r.Stats()
		if st.Delivered != 0 || st.DeliveredTruncated+st.Ports.Lost+st.Ports.NoCable != 2 {
			t.Errorf("cut after %d ns: %+v", after, st)
		}
		if after >= 1000 && st.DeliveredTruncated != 1 {
			t.Errorf("cut after %d ns, the head has passed: %+v", after, st)
		}
		cable.Mend()
		a.send(hardware.AppendPacket(nil, myrinet.Route{1, 1}, 3, payload(4096)))
		r.run(time.Millisecond)
		if n := len(b.got); n == 0 || !b.whole[n-1] {
			t.Errorf("cut after %d ns and mended: nothing comes", after)
		}
		r.account()
	}
}

// TestBitErrors: a changed packet is counted and passed on, and never passes for intact.
func TestBitErrors(t *testing.T) {
	r := newRig(t, myrinet.Options{BitErrors: 1e-5, Seed: 3})
	s := r.Switch("s")
	a, b := r.card("a", s.Port(0)), r.card("b", s.Port(1))
	want := hardware.AppendPacket(nil, nil, 5, payload(1000))
	for range 1000 {
		a.send(hardware.AppendPacket(nil, myrinet.Route{1}, 5, payload(1000)))
	}
	r.run(100 * time.Millisecond)
	st := r.Stats()
	wrong := 0
	for _, p := range append(b.got, a.got...) {
		if _, _, err := hardware.ParsePacket(p); err != nil {
			wrong++
		} else if string(p) != string(want) {
			t.Fatal("a changed packet has a CRC-8 that matches")
		}
	}
	if wrong == 0 || st.BitErrors == 0 || st.Ports.CRCErrors == 0 {
		t.Errorf("%d packets are wrong: %+v", wrong, st)
	}
	r.account()
}

// TestStorm: packets with routes that lead anywhere, short and long, while cables and
// switches fail and return and cards have no room: every packet is accounted for, nothing
// stays blocked, and at the end the fabric works.
func TestStorm(t *testing.T) {
	seeds.Each(t, 300, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, myrinet.Options{Seed: seed, BitErrors: 1e-6, Slack: 1 + rng.IntN(300), Timeout: time.Duration(20+rng.IntN(1000)) * time.Microsecond})
		top := topology.Random(seed, 8, 1+rng.IntN(8), 2+rng.IntN(20))
		var cards []*sink
		b, err := topology.Build(r.Fabric, top, func(int) myrinet.Host {
			cards = append(cards, &sink{world: r.w})
			return cards[len(cards)-1]
		})
		if err != nil {
			return err
		}
		for i, p := range b.Hosts {
			cards[i].port = p
		}
		for range 300 {
			c := cards[rng.IntN(len(cards))]
			route := make(myrinet.Route, rng.IntN(12))
			for i := range route {
				route[i] = int8(rng.IntN(15) - 7)
			}
			c.send(hardware.AppendPacket(nil, route, 1, payload(rng.IntN(1+rng.IntN(5000)))))
			weather(rng, cards, b)
			r.run(time.Duration(rng.IntN(20000)))
		}
		return calm(r, cards, b)
	})
}

// weather changes something now and then.
func weather(rng *rand.Rand, cards []*sink, b *topology.Built) {
	if c := cards[rng.IntN(len(cards))]; rng.IntN(4) == 0 {
		c.full = !c.full
		c.port.Resume()
	}
	if c := b.Cables[rng.IntN(len(b.Cables))]; rng.IntN(8) == 0 {
		if c.IsCut() {
			c.Mend()
		} else {
			c.Cut()
		}
	}
	if s := b.Switches[rng.IntN(len(b.Switches))]; rng.IntN(20) == 0 {
		if s.Up() {
			s.Fail()
		} else {
			s.Restore()
		}
	}
}

// calm mends everything and lets what is under way come to its end.
func calm(r *rig, cards []*sink, b *topology.Built) error {
	r.SetBitErrors(0)
	for _, c := range cards {
		c.full = false
		c.port.Resume()
	}
	for _, c := range b.Cables {
		c.Mend()
	}
	for _, s := range b.Switches {
		s.Restore()
	}
	r.run(10 * time.Second)
	s := r.Stats()
	if s.Sent != s.Delivered+s.DeliveredTruncated+s.Ports.Dropped() || s.UnderWay != 0 {
		return fmt.Errorf("packets do not add up: %+v", s)
	}
	if err := r.AtRest(); err != nil {
		return err
	}
	for i, c := range cards {
		if len(c.queue) != 0 {
			return fmt.Errorf("card %d has %d packets left", i, len(c.queue))
		}
	}
	got := len(cards[0].got)
	cards[0].send(hardware.AppendPacket(nil, myrinet.Route{0}, 1, payload(10))) // to the nearest switch and back
	r.run(10 * time.Second)
	if len(cards[0].got) == got {
		return errors.New("a packet to the nearest switch does not come back")
	}
	return r.FreedOnce()
}

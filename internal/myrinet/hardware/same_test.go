package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// treeRoute returns the route between two hosts over a tree of the topology's cables, so
// that no two packets can wait for each other in a circle; false if there is none.
func treeRoute(top *topology.Topology, from, to int) (myrinet.Route, bool) {
	near := top.Neighbors()
	at := make([]topology.Plug, len(top.Hosts)) // where each host is plugged in
	for _, c := range top.Cables {
		for _, j := range []topology.Join{c, {A: c.B, B: c.A}} {
			if j.A.Host {
				at[j.A.Node] = j.B
			}
		}
	}
	type hop struct{ sw, in, out int } // to the root: from the switch by out, to the next by in
	up := map[int]hop{}
	for order := []int{0}; len(order) > 0; order = order[1:] {
		for port, p := range near[order[0]] {
			if p.Node <= 0 || p.Host || p.Node == order[0] {
				continue
			}
			if _, seen := up[p.Node]; !seen {
				up[p.Node] = hop{order[0], port, p.Port}
				order = append(order, p.Node)
			}
		}
	}
	chain := func(sw int) (c []int) {
		for ; sw != 0; sw = up[sw].sw {
			c = append(c, sw)
			if _, ok := up[sw]; !ok {
				return nil
			}
		}
		return append(c, 0)
	}
	if at[from].Host || at[to].Host {
		return nil, false
	}
	a, b := chain(at[from].Node), chain(at[to].Node)
	if a == nil || b == nil {
		return nil, false
	}
	for len(a) > 1 && len(b) > 1 && a[len(a)-2] == b[len(b)-2] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var route myrinet.Route
	in := at[from].Port
	for _, sw := range a[:len(a)-1] {
		route = append(route, int8(up[sw].out-in))
		in = up[sw].in
	}
	slices.Reverse(b)
	for _, sw := range b[1:] {
		route = append(route, int8(up[sw].in-in))
		in = up[sw].out
	}
	return append(route, int8(at[to].Port-in)), true
}

// order is a packet of a scenario.
type order struct {
	number, from int
	packet       []byte
	arrives      []byte // as it is at the end of its route
}

// scenario is packets among the hosts of a topology: most have a good route, some one that
// leads nowhere. Each says its number.
func scenario(rng *rand.Rand, top *topology.Topology, n int) (list []order) {
	for i := range n {
		from, to := rng.IntN(len(top.Hosts)), rng.IntN(len(top.Hosts))
		route, ok := treeRoute(top, from, to)
		if !ok {
			continue
		}
		if rng.IntN(10) == 0 {
			route[rng.IntN(len(route))] = int8(rng.IntN(15) - 7)
			if len(route) > 1 {
				continue // elsewhere it might go round in circles
			}
		}
		size := rng.IntN(1 + rng.IntN(6000))
		p := append([]byte{byte(i >> 8), byte(i)}, payload(size)...)
		list = append(list, order{i, from, AppendPacket(nil, route, uint16(to), p), AppendPacket(nil, nil, uint16(to), p)})
	}
	return list
}

// asSent looks at what a host got, of which each packet is whole: each is one that was sent,
// byte for byte, none comes twice, and those of one sender come in the order in which they
// were sent. It returns how many are none that was sent.
func asSent(list []order, got [][]byte) (strange int, err error) {
	byNumber := map[int]*order{}
	for i := range list {
		byNumber[list[i].number] = &list[i]
	}
	last := map[int]int{} // number from each sender
	for _, p := range got {
		_, data, err := ParsePacket(p)
		if err != nil || len(data) < 2 {
			strange++
			continue
		}
		o := byNumber[int(data[0])<<8|int(data[1])]
		if o == nil || !bytes.Equal(p, o.arrives) {
			strange++
			continue
		}
		if before, ok := last[o.from]; ok && o.number <= before {
			return strange, fmt.Errorf("packet %d of host %d came after %d", o.number, o.from, before)
		}
		last[o.from] = o.number
	}
	return strange, nil
}

// overVirtual runs a scenario over virtual cables and returns what each host got.
func overVirtual(t testing.TB, top *topology.Topology, list []order) (got [][][]byte) {
	r := newRig(t, myrinet.Options{Ports: top.Ports, Timeout: time.Hour})
	var cards []*sink
	b, err := topology.Build(r.Fabric, top, func(int) myrinet.Host {
		cards = append(cards, &sink{world: r.w})
		return cards[len(cards)-1]
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range b.Hosts {
		cards[i].port = p
	}
	for _, o := range list {
		cards[o.from].send(o.packet)
	}
	if err := r.w.Sleep(time.Second); err != nil {
		t.Fatal(err)
	}
	for _, c := range cards {
		got = append(got, c.got)
	}
	return got
}

func sorted(packets [][]byte) (list []string) {
	for _, p := range packets {
		list = append(list, string(p))
	}
	slices.Sort(list)
	return list
}

// TestSame: a scenario over virtual cables and over live frames, which are copied and
// reordered on the way, delivers the same packets: every one to the same host, byte for
// byte, and those of one sender in one order. In which order those of several senders come
// is decided by who is first at an output, and that by time, which the two carriers do not
// share.
func TestSame(t *testing.T) {
	seeds.Each(t, 20, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 2))
		top := topology.Random(seed, 8, 1+rng.IntN(5), 2+rng.IntN(10))
		if len(top.Hosts) < 2 {
			return nil
		}
		list := scenario(rng, top, 300)
		want := overVirtual(t, top, list)
		so := sim.Options{Seed: seed, MTU: []int{256, 1500, 9000}[rng.IntN(3)], Dup: 0.05, Reorder: 0.05, Jitter: 20 * time.Microsecond}
		r := newLiveRig(t, so, myrinet.LiveOptions{}, top)
		r.run(time.Second)
		for _, o := range list {
			r.cards[o.from].send(o.packet)
		}
		r.run(20 * time.Second)
		for i, c := range r.cards {
			if got := sorted(c.got); !slices.Equal(got, sorted(want[i])) {
				return fmt.Errorf("host %d got %d packets, over virtual cables %d", i, len(got), len(want[i]))
			}
			for _, got := range [][][]byte{want[i], c.got} {
				if strange, err := asSent(list, got); err != nil || strange > 0 {
					return fmt.Errorf("host %d: %d packets that nobody has sent, %w", i, strange, err)
				}
			}
		}
		return r.account()
	})
}

// TestLossy: over frames that are lost, copied, reordered and changed, what comes whole and
// with the right CRC-8 is as it was sent, in order, and comes once; what does not come is
// counted; and afterwards the fabric works as before. Which packets come is not compared with
// virtual cables: there nothing loses frames.
func TestLossy(t *testing.T) {
	seeds.Each(t, 50, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 3))
		top := topology.Random(seed, 8, 1+rng.IntN(4), 2+rng.IntN(8))
		if len(top.Hosts) < 2 {
			return nil
		}
		so := sim.Options{
			Seed: seed, MTU: []int{256, 1500, 9000}[rng.IntN(3)], Dup: 0.02, Reorder: 0.02, Loss: 0.02, Corrupt: 0.01,
			Burst: sim.Burst{Enter: 0.001, Leave: 0.1},
		}
		r := newLiveRig(t, so, myrinet.LiveOptions{Timeout: 20 * time.Millisecond}, top)
		r.run(time.Second)
		list := scenario(rng, top, 200)
		for _, o := range list {
			r.cards[o.from].send(o.packet)
		}
		r.run(10 * time.Second)
		if err := r.judge(list); err != nil {
			return err
		}
		return r.works(top)
	})
}

// judge compares what came with what was sent.
func (r *liveRig) judge(list []order) error {
	missed := 0
	for i, c := range r.cards {
		var whole [][]byte
		for k, p := range c.got {
			if _, _, err := ParsePacket(p); err == nil && c.whole[k] {
				whole = append(whole, p)
			}
		}
		strange, err := asSent(list, whole)
		if err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
		missed += strange
	}
	if missed > 3 { // changes of several bits that CRC-8 does not see
		return fmt.Errorf("%d packets are changed and have a CRC-8 that matches", missed)
	}
	return r.account()
}

// works sends a packet from each host to the next one, with a try more for each that the
// frames' faults may cost.
func (r *liveRig) works(top *topology.Topology) error {
	for i, c := range r.cards {
		to := (i + 1) % len(r.cards)
		route, ok := treeRoute(top, i, to)
		if !ok {
			continue
		}
		before := len(r.cards[to].got)
		for try := 0; len(r.cards[to].got) == before; try++ {
			if try == 10 {
				return errors.New("the fabric does not work afterwards")
			}
			c.send(AppendPacket(nil, route, 1, payload(10)))
			r.run(time.Second)
		}
	}
	return nil
}

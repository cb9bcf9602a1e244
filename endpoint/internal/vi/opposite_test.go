package vi

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// testHalf is a half that notes what it is given.
type testHalf struct {
	ch     *channel
	got    []string // messages, as text
	kept   []*provider.Packet
	keeps  bool
	sent   int
	broken bool
	on     func(p *provider.Packet) // sees each message
}

func (h *testHalf) Received(p *provider.Packet) {
	if h.on == nil {
		h.got = append(h.got, text(p))
	} else {
		h.on(p)
	}
	if h.keeps {
		h.kept = append(h.kept, p)
		return
	}
	h.ch.Release(p)
}

func (h *testHalf) HandleNow(*provider.Packet) bool { return false }
func (h *testHalf) Placed(int)                      {}
func (h *testHalf) Wrote(int)                       {}
func (h *testHalf) Sent()                           { h.sent++ }
func (h *testHalf) Undelivered(int, wire.Reason)    {}
func (h *testHalf) Broken(wire.Reason, error)       { h.broken = true }

// text is a packet as text.
func text(p *provider.Packet) string {
	return fmt.Sprintf("%d %d %q", p.Head.Kind, p.Head.Use, p.Head.Payload(p.Body))
}

// testHost is a node of one endpoint, number 1.
type testHost struct {
	w       *Provider
	budget  provider.Budget
	corked  provider.Corked
	servers []*testHalf // accepted
	strays  int
	on      func(s *testHalf, p *provider.Packet) // sees each message to these
}

func (h *testHost) Admit(*wire.Hello) (provider.Half, wire.Reason) { return &testHalf{}, 0 }
func (h *testHost) Refused(wire.Reason)                            {}
func (h *testHost) Stray()                                         { h.strays++ }

func (h *testHost) Attach(up provider.Half, ch provider.Channel) {
	s := up.(*testHalf)
	s.ch = ch.(*channel)
	if h.on != nil {
		s.on = func(p *provider.Packet) { h.on(s, p) }
	}
	h.servers = append(h.servers, s)
}

// askers are two nodes that have dialed each other.
type askers struct {
	*testing.T
	world *sim.World
	hosts [2]*testHost
	asks  [2]*testHalf // what each has dialed
	use   uint32
}

var askShape = wire.Shape{Slots: 4, Small: 2, Medium: 600}

func newAskers(t *testing.T, loss float64) *askers {
	a := &askers{T: t, world: sim.New(sim.Options{Seed: 5, Loss: loss, Reorder: loss})}
	for i := range a.hosts {
		a.hosts[i] = a.open(&vipl.Config{Link: a.world.Station(fmt.Sprint("host ", i)), Seed: uint64(i + 1)})
	}
	return a
}

// connect has node i dial the other one.
func (a *askers) connect(i int) {
	a.asks[i] = a.dial(a.hosts[i], a.hosts[1-i])
	a.until("the connection", func() bool { return len(a.hosts[1-i].servers) > 0 })
}

func (a *askers) open(cfg *vipl.Config) *testHost {
	nic, err := vipl.Open(cfg)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { nic.Close() })
	h := &testHost{budget: provider.Budget{Most: 1 << 20}}
	if h.w, err = Open(Config{NIC: nic}, h, &h.budget, &h.corked); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { h.w.Close() })
	return h
}

// dial connects an endpoint of one node with that of another one, by a published name.
func (a *askers) dial(from, to *testHost) *testHalf {
	half := &testHalf{}
	hello := wire.Hello{From: wire.Name{Addr: from.w.Addr(), ID: 1}, ID: 1, Shape: askShape}
	ch, err := from.w.Dial(wire.Name{Addr: to.w.Addr(), ID: 0xF0000000}, hello, half)
	if err != nil {
		a.Fatal(err)
	}
	half.ch = ch.(*channel)
	return half
}

// until polls both nodes until something is so.
func (a *askers) until(what string, so func() bool) {
	a.Helper()
	for range 200_000 {
		if so() {
			return
		}
		if err := a.world.Sleep(5_000); err != nil {
			a.Fatal(err)
		}
		for _, h := range a.hosts {
			if err := h.w.Poll(); err != nil {
				a.Fatal(err)
			}
		}
	}
	a.Fatalf("not within a second: %s", what)
}

// rest polls for long enough that nothing is under way.
func (a *askers) rest() {
	polls := 0
	a.until("rest", func() bool { polls++; return polls > 2_000 })
}

// pair has both dial, one as soon as the other, and waits until the channels are opposites.
func (a *askers) pair() {
	for i, h := range a.hosts {
		a.asks[i] = a.dial(h, a.hosts[1-i])
	}
	a.paired()
}

// paired waits until the channels are opposites.
func (a *askers) paired() {
	a.Helper()
	a.until("a pair at both ends", func() bool {
		return a.asks[0].ch.opposite.ch != nil && a.asks[1].ch.opposite.ch != nil
	})
}

// first returns the number of the node with the lower address.
func (a *askers) first() int {
	if goesFirst(a.hosts[0].w.Addr(), a.hosts[1].w.Addr()) {
		return 0
	}
	return 1
}

// TestPair: two nodes that have dialed each other know it, whoever has dialed first, and agree about which
// channel carries: the one that the node with the lower address has dialed.
func TestPair(t *testing.T) {
	for _, loss := range []float64{0, 0.2} {
		for first := range 2 {
			a := newAskers(t, loss)
			a.connect(first)
			a.rest()
			a.connect(1 - first)
			a.paired()
			k := a.first()
			for i, h := range a.hosts {
				c, s := a.asks[i].ch, h.servers[0].ch
				if c.opposite.ch != s || s.opposite.ch != c || c.opposite.carries != (i == k) || s.opposite.carries == (i == k) {
					t.Errorf("node %d: %v and %v, of which %v and %v carry", i, c.opposite.ch == s, s.opposite.ch == c, c.opposite.carries, s.opposite.carries)
				}
				if h.strays > 0 {
					t.Errorf("node %d: %d strays", i, h.strays)
				}
			}
			token := a.asks[k].ch.opposite.token
			another := a.dial(a.hosts[1-k], a.hosts[k])
			a.rest()
			if another.ch.opposite.ch != nil || a.asks[k].ch.opposite.token != token || a.hosts[0].strays+a.hosts[1].strays > 0 {
				t.Error("another connection has the pair begin anew")
			}
		}
	}
}

// TestPairOthers: further connections between two endpoints, or to another one of the same node, which
// are made while tokens are under way, keep nobody from becoming a pair, and no token is lost.
func TestPairOthers(t *testing.T) {
	for i := range 2 {
		a := newAskers(t, 0)
		for k, h := range a.hosts {
			a.asks[k] = a.dial(h, a.hosts[1-k])
		}
		others := []*testHalf{a.dial(a.hosts[i], a.hosts[1-i])}
		a.until("a token", func() bool { return a.asks[a.first()].ch.opposite.token != 0 })
		others = append(others, a.dial(a.hosts[i], a.hosts[1-i]), a.dial(a.hosts[1-i], a.hosts[i]))
		a.paired()
		a.rest()
		for _, h := range others {
			if h.ch.opposite.ch != nil {
				t.Error("another connection is of a pair")
			}
		}
		for _, h := range a.hosts {
			if h.strays > 0 {
				t.Errorf("%d strays", h.strays)
			}
		}
	}
}

// TestPairAgain: if a channel of a pair ends, the other one makes a pair with the next.
func TestPairAgain(t *testing.T) {
	for i := range 2 {
		a := newAskers(t, 0)
		a.pair()
		a.asks[i].ch.Close()
		a.rest()
		if a.asks[1-i].ch.opposite.ch != nil || len(a.hosts[i].w.pairs) != 1 {
			t.Fatal("still a pair")
		}
		a.connect(i)
		a.paired()
		a.asks[1-i].ch.Close()
		a.asks[i].ch.Close()
		a.rest()
		for _, h := range a.hosts {
			if len(h.w.pairs) != 0 || h.strays > 0 {
				t.Errorf("%d pairs are left, %d strays", len(h.w.pairs), h.strays)
			}
		}
	}
}

// TestPairBusy: tokens find a receive while all those of messages are in use, and one that has been
// released is not posted again.
func TestPairBusy(t *testing.T) {
	a := newAskers(t, 0)
	i := a.first()
	a.connect(i)
	s := a.hosts[1-i].servers[0]
	s.keeps = true
	for n := range askShape.Receives() + 1 {
		q, _ := a.message(a.asks[i].ch, wire.KindShort, 20)
		q.ch.launch(q.x)
		a.until("the message", func() bool { return len(s.got) == n+1 })
	}
	a.connect(1 - i)
	a.paired()
}

// TestPairPoser: a program that says to be an endpoint of its host which it is not hears nothing of
// use, and what it says makes no pair: a token of its own, one that was guessed, and one
// that the node that it has dialed was told by another.
func TestPairPoser(t *testing.T) {
	a := newAskers(t, 0)
	k := a.first()
	a.connect(k)
	victim, honest := a.hosts[k], a.asks[k].ch
	poser := a.dial(a.hosts[1-k], victim)                          // which says that it is the endpoint that the victim asks
	a.hosts[1-k].w.pairs[poser.ch.opposite.key][wire.Asking] = nil // and which is not
	a.until("a connection", func() bool { return len(victim.servers) == 1 })
	for i, tokens := range []wire.Tokens{{New: 5}, {Heard: 7}, {Heard: 7, New: 5}} {
		poser.ch.say(tokens)
		a.rest()
		if honest.opposite.ch != nil || victim.servers[0].ch.opposite.ch != nil {
			t.Fatalf("tokens %d: a pair", i)
		}
	}
	if victim.strays != 3 || honest.opposite.token == 0 || a.hosts[1-k].strays != 1 { // it has told the true one, who has not dialed
		t.Errorf("token %x, %d strays, and %d at the true one", honest.opposite.token, victim.strays, a.hosts[1-k].strays)
	}
	a.hosts[1-k].w.pairs[poser.ch.opposite.key][wire.Asking] = poser.ch
	dialed, strays := poser.ch, a.hosts[1-k].strays
	dialed.told(append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0))
	if a.hosts[1-k].strays != strays+1 || dialed.opposite.token != 0 {
		t.Error("tokens on a channel that was dialed are taken")
	}
}

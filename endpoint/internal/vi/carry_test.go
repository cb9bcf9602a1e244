package vi

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/shm"
	"github.com/bobnet-go/bobnet/vipl"
)

// message builds a message in a send buffer that is idle, and returns it, and its text.
func (a *askers) message(ch *channel, kind wire.Kind, payload int) (piggyback, string) {
	a.until("an idle buffer", func() bool { return slices.ContainsFunc(ch.sends[:2], func(x sendBuffer) bool { return !x.busy }) })
	i := slices.IndexFunc(ch.sends[:2], func(x sendBuffer) bool { return !x.busy })
	a.use++
	x := &ch.sends[i]
	n := (&wire.Header{Kind: kind, Slot: uint16(i), Use: a.use}).Put(x.mem)
	b := bytes.Repeat([]byte{byte(a.use)}, payload)
	n += copy(x.mem[n:], b)
	x.n, x.busy = n, true
	return piggyback{ch, x}, fmt.Sprintf("%d %d %q", kind, a.use, b)
}

// send has node i send a reply and a request in one message. It returns their texts.
func (a *askers) send(i int) (reply, request string) {
	r, reply := a.message(a.hosts[i].servers[0].ch, wire.KindReply, 8)
	q, request := a.message(a.asks[i].ch, wire.KindShort, 4)
	if q.ch.opposite.carries {
		q.ch.launchWith(q.x, r)
	} else {
		r.ch.launchWith(r.x, q)
	}
	return reply, request
}

// TestCarry: a reply and a request in one message arrive once each, in this order, more
// often than there are receives, from either side, also if frames are lost; afterwards their buffers are idle.
func TestCarry(t *testing.T) {
	for _, loss := range []float64{0, 0.1} {
		a := newAskers(t, loss)
		a.pair()
		var want [2][2][]string // by the node that sends: replies, requests
		for n := range 10 * askShape.Slots {
			for i := range a.hosts {
				if n%3 == i {
					continue
				}
				reply, request := a.send(i)
				want[i][0], want[i][1] = append(want[i][0], reply), append(want[i][1], request)
			}
		}
		for i := range a.hosts {
			replies, requests := a.asks[1-i], a.hosts[1-i].servers[0]
			a.until("all messages", func() bool { return len(replies.got) == len(want[i][0]) && len(requests.got) == len(want[i][1]) })
			if !slices.Equal(replies.got, want[i][0]) || !slices.Equal(requests.got, want[i][1]) {
				t.Errorf("loss %v: from node %d\n%v\n%v\nwant\n%v", loss, i, replies.got, requests.got, want[i])
			}
		}
		a.idle()
		for i, h := range a.hosts {
			if h.strays > 0 || a.asks[i].broken || h.servers[0].broken || a.asks[i].sent == 0 || h.servers[0].sent == 0 {
				t.Errorf("loss %v: node %d: %d strays, broken %v, %v, heard of %d and %d buffers", loss, i, h.strays, a.asks[i].broken, h.servers[0].broken, a.asks[i].sent, h.servers[0].sent)
			}
		}
	}
}

// slow is a link on whose clock everything takes a hundredth of the time, so that a program is prompt
// on any machine, and under the race detector.
type slow struct{ transport.Link }

func (l slow) Now() int64             { return l.Link.Now()/100 + 1 }
func (l slow) Wait(until int64) error { return l.Link.Wait(until * 100) }

// TestCarryLive: two programs that ask each other in shared memory come to send replies and requests in
// one message by themselves, and each request is answered.
func TestCarryLive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := &askers{T: t}
	for i := range a.hosts {
		link, err := shm.Open(&shm.Config{EtherType: 0x88B6})
		if err != nil {
			t.Fatal(err)
		}
		a.hosts[i] = a.open(&vipl.Config{Link: slow{link}, Seed: uint64(i + 1)})
	}
	for i, h := range a.hosts {
		a.asks[i] = a.dial(h, a.hosts[1-i])
	}
	var over sync.WaitGroup
	var came, done [2]atomic.Bool
	both := func(b *[2]atomic.Bool) bool { return b[0].Load() && b[1].Load() }
	for i, h := range a.hosts {
		over.Go(func() {
			a.askOn(ctx, i, func() bool { return both(&came) }, func(p *provider.Packet) {
				if _, piggybacked := p.Home.(*piggybackBuffer); piggybacked {
					came[i].Store(true)
				}
			})
			done[i].Store(true)
			for !both(&done) && ctx.Err() == nil {
				h.w.Poll()
			}
		})
	}
	over.Wait()
	for i, h := range a.hosts {
		if ctx.Err() != nil || h.strays > 0 || a.asks[i].broken {
			t.Errorf("node %d: %v, a piggybacked message is %v, %d strays, broken %v", i, ctx.Err(), came[i].Load(), h.strays, a.asks[i].broken)
		}
	}
}

// askOn has node i ask the other one, and answer it, until enough. saw sees each message.
func (a *askers) askOn(ctx context.Context, i int, enough func() bool, saw func(*provider.Packet)) {
	h, c := a.hosts[i], a.asks[i]
	answered, use := true, uint32(0)
	c.on = func(p *provider.Packet) { saw(p); answered = answered || p.Head.Use == use }
	h.on = func(s *testHalf, p *provider.Packet) {
		saw(p)
		k := slices.IndexFunc(s.ch.sends, func(x sendBuffer) bool { return !x.busy })
		together := 0
		if answered {
			together = provider.Next
		}
		s.ch.Post(k, (&wire.Header{Kind: wire.KindReply, Slot: p.Head.Slot, Use: p.Head.Use}).Put(s.ch.Buffer(k)), together)
	}
	for (!enough() || !answered) && ctx.Err() == nil {
		if k := slices.IndexFunc(c.ch.sends[:2], func(x sendBuffer) bool { return !x.busy }); answered && k >= 0 {
			answered = false
			use++
			c.ch.Post(k, (&wire.Header{Kind: wire.KindShort, Slot: uint16(k), Use: use}).Put(c.ch.Buffer(k)), 0)
		}
		if h.w.Poll(); !answered {
			h.w.CatchUp()
			h.w.Wait(ctx)
			h.w.Deliver(false)
		}
	}
}

// idle waits until all send buffers of open channels are, and nothing counts as under way.
func (a *askers) idle() {
	a.Helper()
	for i, h := range a.hosts {
		a.until("idle buffers", func() bool {
			for _, up := range []*testHalf{a.asks[i], h.servers[0]} {
				for k := range up.ch.sends {
					if x := &up.ch.sends[k]; !up.ch.closed && !up.ch.broken && (x.busy || x.piggyback.ch != nil) {
						return false
					}
				}
			}
			return h.w.flying == 0
		})
	}
}

// TestPart: if either channel of a pair ends at either node while messages are under way, what belongs
// to the other one arrives all the same, perhaps twice, and its buffer becomes idle.
func TestPart(t *testing.T) {
	for _, loss := range []float64{0, 0.3} {
		for from := range 2 { // who sends
			for at := range 2 { // who closes
				for which := range 2 { // what it closes: the channel that it has dialed, or the other one
					a := newAskers(t, loss)
					a.pair()
					reply, request := a.send(from)
					ends := a.asks[at]
					if which == 1 {
						ends = a.hosts[at].servers[0]
					}
					dialer := at
					if which == 1 {
						dialer = 1 - at
					}
					ends.ch.Close()
					a.rest()
					name := fmt.Sprintf("loss %v, node %d sends, node %d closes what %d has dialed", loss, from, at, dialer)
					replies, requests := a.asks[1-from], a.hosts[1-from].servers[0]
					if dialer == from && !slices.Contains(replies.got, reply) {
						t.Errorf("%s: the reply has not come", name)
					}
					if dialer != from && !slices.Contains(requests.got, request) {
						t.Errorf("%s: the request has not come", name)
					}
					a.idle()
					for i, h := range a.hosts {
						if a.asks[i].ch.opposite.ch != nil || h.servers[0].ch.opposite.ch != nil {
							t.Errorf("%s: still a pair at node %d", name, i)
						}
					}
				}
			}
		}
	}
}

// TestPartBoth: if both channels of a pair end, the one that has carried last, what it has not delivered
// can be read by whom it comes back to.
func TestPartBoth(t *testing.T) {
	a := newAskers(t, 0)
	a.pair()
	k := a.first()
	_, request := a.send(k)
	a.hosts[k].servers[0].ch.Close()
	a.asks[k].ch.fail()
	i := slices.IndexFunc(a.asks[k].ch.sends, func(x sendBuffer) bool { return x.busy })
	x := &a.asks[k].ch.sends[i]
	var p provider.Packet
	var ok bool
	if p.Body, ok = p.Head.Parse(x.mem[:x.n], nil); !ok || text(&p) != request {
		t.Errorf("%x: %v, want %s", x.mem[:x.n], ok, request)
	}
}

// TestPiggybackKept: a piggybacked message that has to wait for its turn keeps its content, whatever comes on the channel
// that has carried it; a peer that sends more than its credits allow loses them.
func TestPiggybackKept(t *testing.T) {
	a := newAskers(t, 0)
	a.pair()
	k := a.first()
	a.asks[1-k].keeps = true // its replies are piggybacked
	most := askShape.Slots + 1
	for range most + 2 {
		a.send(k)
	}
	kept := a.asks[1-k]
	a.until("as many as there are buffers", func() bool { return len(a.hosts[1-k].servers[0].got) == most+2 })
	if len(kept.kept) != most || a.hosts[1-k].strays != 2 {
		t.Fatalf("%d are kept and %d strays, want %d and 2", len(kept.kept), a.hosts[1-k].strays, most)
	}
	for range 20 { // in all receives of the channel that carries
		q, _ := a.message(a.asks[k].ch, wire.KindShort, 60)
		q.ch.launch(q.x)
	}
	a.rest()
	for i, p := range kept.kept {
		if text(p) != kept.got[i] {
			t.Errorf("message %d was %s and is %s", i, kept.got[i], text(p))
		}
		kept.ch.Release(p)
	}
	kept.keeps = false
	a.send(k)
	a.until("another one", func() bool { return len(kept.got) == most+1 })
	if kept.ch.opposite.made != most {
		t.Errorf("%d buffers were made, want %d", kept.ch.opposite.made, most)
	}
}

// notedHalf notes what it is given, by its number: now has it handled at once, or not.
type notedHalf struct {
	provider.Half
	number int
	now    func() bool
	noted  *[]int // of what was handled at once; what has to wait for its turn is negative
}

func (h *notedHalf) HandleNow(*provider.Packet) bool {
	if !h.now() {
		return false
	}
	*h.noted = append(*h.noted, h.number)
	return true
}

func (h *notedHalf) Received(*provider.Packet) { *h.noted = append(*h.noted, -h.number) }

// TestCarriedAtOnce: of two messages that come in one each is handled at once, or handed on, the
// reply first; the second one also if the first one's handler ends the goroutine, and not if it closes
// the channel.
func TestCarriedAtOnce(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		first, second func() bool
		closes        bool
		noted         []int
		handled       int // -1: it does not return
	}{
		"both":             {yes, yes, false, []int{1, 2}, 2},
		"the first":        {yes, no, false, []int{1, -2}, 1},
		"none":             {no, no, false, []int{-1, -2}, 0},
		"the first closes": {yes, yes, true, []int{1}, 1},
		"the first exits":  {func() bool { runtime.Goexit(); return true }, yes, false, []int{-2}, -1},
	} {
		for _, side := range []wire.Side{wire.Asking, wire.Serving} {
			var noted []int
			w := &Provider{up: &testHost{}}
			carrier, other := &channel{way: w, side: side, windows: make([]vipl.MemHandle, 4)}, &channel{way: w, side: 1 - side, windows: make([]vipl.MemHandle, 4)}
			reply, request := carrier, other
			if side == wire.Serving {
				reply, request = other, carrier
			}
			first := c.first
			if c.closes {
				first = func() bool { request.closed = true; return true }
			}
			reply.up = &notedHalf{number: 1, now: first, noted: &noted}
			request.up = &notedHalf{number: 2, now: c.second, noted: &noted}
			pair(carrier, other)
			mem := make([]byte, 2*wire.SmallSize)
			piggybacked := make([]byte, wire.SmallSize)
			n := (&wire.Header{Kind: wire.KindDone}).Put(mem)
			m := (&wire.Header{Kind: wire.KindDone}).Put(piggybacked)
			x := &receiveBuffer{mem: mem[:wire.Carry(mem, n, piggybacked[:m])]}
			handled, over := -1, make(chan bool)
			go func() {
				defer close(over)
				handled = carrier.carried(x, len(x.mem), true)
			}()
			<-over
			if !slices.Equal(noted, c.noted) || handled != c.handled {
				t.Errorf("%s: noted %d, want %d; %d handled, want %d", name, noted, c.noted, handled, c.handled)
			}
		}
	}
}

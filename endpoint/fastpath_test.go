package endpoint

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// pairOf is a connection of an endpoint with itself, of which the test hands messages
// to either half.
type pairOf struct {
	*waiting
	n      *Node
	c      *client
	s      *server
	ran    []uint8 // handlers
	others *waiting
}

const pairTag = 9

func newPair(t *testing.T) *pairOf {
	n := bareNode(&idleWay{bell: make(chan struct{}, 1)})
	p := &pairOf{waiting: newWaiting(t, n), n: n, others: newWaiting(t, n)}
	p.ep.SetTag(pairTag)
	p.ep.SetHandler(1, func(t Token, args []uint32, data []byte) { p.ran = append(p.ran, 1); t.Reply(2, args...) })
	p.ep.SetHandler(2, func(Token, []uint32, []byte) { p.ran = append(p.ran, 2) })
	p.ep.Map(0, p.ep.Name(), pairTag)
	if err := p.ep.Request(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.bundle.Poll()
	}
	for p.s = range p.ep.servers.places {
	}
	for p.c = range p.ep.clients.places {
	}
	if !slices.Equal(p.ran, []uint8{1, 2}) || p.s == nil || p.c == nil {
		t.Fatal("no connection:", p.ran)
	}
	p.ran = nil
	p.s.ch, p.c.ch = handmade{p.s.ch}, handmade{p.c.ch}
	p.s.due = 7
	return p
}

// packet makes a message for either half.
func (p *pairOf) packet(h wire.Header) *provider.Packet {
	m, mem := &provider.Packet{}, make([]byte, wire.SmallSize)
	m.Body, _ = m.Head.Parse(mem[:h.Put(mem)], nil)
	return m
}

// handmade is a channel to whose half the test hands messages of its own, too.
type handmade struct{ provider.Channel }

func (h handmade) Release(p *provider.Packet) {
	if p.Home != nil {
		h.Channel.Release(p)
	}
}

// nowCase is a message that is not handled at once, because of what it is or of
// what set makes of the pair.
type nowCase struct {
	name string
	head wire.Header
	set  func(p *pairOf)
}

// notFirst returns why even an expected message has to wait for its turn. of returns what
// the half that gets it has.
func notFirst(expected wire.Header, of func(p *pairOf) (*turn, *provider.Packets)) []nowCase {
	half := func(set func(t *turn, q *provider.Packets)) func(p *pairOf) {
		return func(p *pairOf) { set(of(p)) }
	}
	return []nowCase{
		{"of another bundle", expected, func(p *pairOf) { p.bundle = p.others.bundle }},
		{"behind a reply", expected, func(p *pairOf) { p.bundle.replies.Push(p.c) }},
		{"behind a request", expected, func(p *pairOf) { p.bundle.requests.Push(p.s) }},
		{"behind one of the connection", expected, half(func(_ *turn, q *provider.Packets) { q.Push(&provider.Packet{}) })},
		{"served", expected, half(func(t *turn, _ *provider.Packets) { t.running = true })},
		{"queued", expected, half(func(t *turn, _ *provider.Packets) { t.queued = true })},
		{"closed", expected, half(func(t *turn, _ *provider.Packets) { t.closed = true })},
		{"broken", expected, half(func(t *turn, _ *provider.Packets) { t.reason = ReasonUnreachable })},
	}
}

// TestHandleNowRequest: a request that comes alone is handled and answered at once if
// that changes nothing else, and otherwise left as it is.
func TestHandleNowRequest(t *testing.T) {
	expected := wire.Header{Kind: wire.KindShort, Handler: 1, Slot: 1, Use: 7, Tag: pairTag}
	with := func(change func(h *wire.Header)) wire.Header { h := expected; change(&h); return h }
	for _, c := range append(notFirst(expected, func(p *pairOf) (*turn, *provider.Packets) { return &p.s.turn, &p.s.queue }), []nowCase{
		{name: "beyond the credits", head: with(func(h *wire.Header) { h.Slot = uint16(DefaultCredits.total()) })},
		{name: "bulk", head: with(func(h *wire.Header) { h.Kind = wire.KindBulk })},
		{name: "a tag that the endpoint does not admit", head: with(func(h *wire.Header) { h.Tag++ })},
		{name: "no such handler", head: with(func(h *wire.Header) { h.Handler = 77 })},
		{name: "before its turn", head: with(func(h *wire.Header) { h.Use++ })},
		{name: "many under way", head: with(func(h *wire.Header) { h.Underway = 2 * replyShare })},
		{name: "a busy slot", head: expected, set: func(p *pairOf) { p.s.slots[1].state = serverQueued }},
	}...) {
		p := newPair(t)
		if c.set != nil {
			c.set(p)
		}
		before := p.s.slots[1]
		p.n.mu.Lock()
		p.n.atOnce = p.bundle
		if m := p.packet(c.head); p.s.HandleNow(m) || len(p.ran) > 0 || m.Body == nil ||
			p.s.slots[1].state != before.state || p.s.slots[1].use != before.use || p.s.slots[1].posts != before.posts {
			t.Errorf("%s: handled at once; handlers %v have run", c.name, p.ran)
		}
		p.n.mu.Unlock()
	}
	p := newPair(t)
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.n.atOnce = p.bundle
	p.c.slots[1].use, p.c.slots[1].state = 7, slotWaiting
	if !p.s.HandleNow(p.packet(expected)) || !slices.Equal(p.ran, []uint8{1}) || p.s.running || p.s.slots[1].state != serverIdle {
		t.Errorf("the expected case: handlers %v have run, the slot is %v", p.ran, p.s.slots[1].state)
	}
	if p.c.queue.Len() != 1 || p.c.queue.Head.Head.Use != 7 {
		t.Error("the expected case: no reply has come")
	}
}

// TestHandleNowReply is TestHandleNowRequest for replies.
func TestHandleNowReply(t *testing.T) {
	expected := wire.Header{Kind: wire.KindReply, Handler: 2, Slot: 1, Use: 7, Tag: pairTag}
	with := func(change func(h *wire.Header)) wire.Header { h := expected; change(&h); return h }
	for _, c := range append(notFirst(expected, func(p *pairOf) (*turn, *provider.Packets) { return &p.c.turn, &p.c.queue }), []nowCase{
		{name: "beyond the credits", head: with(func(h *wire.Header) { h.Slot = uint16(DefaultCredits.total()) })},
		{name: "of a request before", head: with(func(h *wire.Header) { h.Use-- })},
		{name: "bulk", head: with(func(h *wire.Header) { h.Kind = wire.KindReplyBulk })},
		{name: "a return", head: with(func(h *wire.Header) { h.Kind, h.Reason = wire.KindReturn, ReasonBadTag })},
		{name: "a tag that the endpoint does not admit", head: with(func(h *wire.Header) { h.Tag++ })},
		{name: "no such handler", head: with(func(h *wire.Header) { h.Handler = 77 })},
		{name: "to nothing", head: expected, set: func(p *pairOf) { p.c.slots[1].state = slotFree }},
		{name: "a second one", head: expected, set: func(p *pairOf) { p.c.slots[1].state = slotHandling }},
	}...) {
		p := newPair(t)
		p.n.mu.Lock()
		p.waits(1)
		if c.set != nil {
			c.set(p)
		}
		before := p.c.slots[1].state
		p.n.atOnce = p.bundle
		if m := p.packet(c.head); p.c.HandleNow(m) || len(p.ran) > 0 || m.Body == nil || p.c.slots[1].state != before {
			t.Errorf("%s: handled at once; handlers %v have run", c.name, p.ran)
		}
		p.n.mu.Unlock()
	}
	p := newPair(t)
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.n.atOnce = p.bundle
	p.waits(1)
	if !p.c.HandleNow(p.packet(expected)) || !slices.Equal(p.ran, []uint8{2}) || p.c.running || p.c.slots[1].state != slotFree || p.c.used != 0 {
		t.Errorf("the expected case: handlers %v have run, the slot is %v, %d are in use", p.ran, p.c.slots[1].state, p.c.used)
	}
}

// waits makes slot i, which is free, one that waits for the answer to its use 7.
func (p *pairOf) waits(i int) {
	for p.c.claimSlot(OpRequest) != i {
	}
	p.c.slots[i].use = 7
	for k := range p.c.slots {
		if k != i && p.c.slots[k].state != slotFree {
			p.c.free(k)
		}
	}
}

// loneWay delivers a message as one that came alone.
type loneWay struct {
	idleWay
	up provider.Half
	p  *provider.Packet
}

func (w *loneWay) Deliver(atOnce bool) bool {
	if p := w.p; p != nil {
		w.p = nil
		if atOnce && w.up.HandleNow(p) {
			return true
		}
		w.up.Received(p)
	}
	return false
}

// TestHandleNowEnds: the handler of a message that comes alone may panic, and may end its
// goroutine; WaitPoll counts it, and who follows leads meanwhile.
func TestHandleNowEnds(t *testing.T) {
	for _, end := range []string{"returns", "panics", "exits"} {
		p := newPair(t)
		way := &loneWay{idleWay: idleWay{bell: make(chan struct{}, 1)}, up: p.s}
		p.n.way = way
		led := false
		p.ep.SetHandler(1, func(Token, []uint32, []byte) {
			led = reached(p.n, func() bool { return p.n.leader == p.others.bundle }) == nil
			switch end {
			case "panics":
				panic("on purpose")
			case "exits":
				runtime.Goexit()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		served, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			served, _ = p.bundle.WaitPoll(ctx)
		}()
		if err := reached(p.n, func() bool { return p.n.leader == p.bundle }); err != nil {
			t.Fatal(err)
		}
		follower := make(chan struct{})
		go func() { defer close(follower); p.others.bundle.WaitPoll(ctx) }()
		if err := reached(p.n, func() bool { return len(p.n.followers.list) == 1 }); err != nil {
			t.Fatal(err)
		}
		p.n.mu.Lock()
		way.p = p.packet(wire.Header{Kind: wire.KindShort, Handler: 1, Slot: 1, Use: 7, Tag: pairTag})
		p.n.mu.Unlock()
		way.Wake()
		<-done
		if want := map[string]int{"returns": 1, "panics": 1}[end]; served != want || !led {
			t.Errorf("a handler that %s: WaitPoll returned %d, want %d; another led meanwhile: %v", end, served, want, led)
		}
		p.n.mu.Lock()
		if s := p.s; s.running || s.handled || s.slots[1].state != serverIdle || p.n.running != 0 {
			t.Errorf("a handler that %s: its slot is %v, %d handlers run", end, s.slots[1].state, p.n.running)
		}
		p.n.mu.Unlock()
		cancel()
		<-follower
	}
}

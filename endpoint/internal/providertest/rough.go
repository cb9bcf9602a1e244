package providertest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// Rough determines how the providers of a Segment use the freedom that the contract leaves. Each
// field is a probability in percent.
type Rough struct {
	Nack    int // an arriving message is refused, and arrives again later
	Return  int // a message returns alone, but not twice in a row from one buffer, unless this is 100
	Mistake int // a message that has arrived returns alone as well
}

// Segment joins providers in memory. Messages arrive in any order, acknowledgements arrive late,
// and some messages return. A seed determines this. A Segment panics if a half violates the
// contract: if it posts from a buffer that is not idle, changes such a buffer, keeps too many
// packets, or releases one twice. One goroutine drives all nodes of a segment.
type Segment struct {
	rng   *rand.Rand
	rough Rough
	nodes []*Node
	names map[string]ethertype.Addr
}

// NewSegment returns a segment without nodes.
func NewSegment(seed uint64, rough Rough) *Segment {
	return &Segment{rng: rand.New(rand.NewPCG(seed, 7)), rough: rough, names: map[string]ethertype.Addr{}}
}

// Node is the provider of one node. It is a provider.Provider.
type Node struct {
	seg    *Segment
	up     provider.Host
	memory *provider.Budget
	at     ethertype.Addr
	inbox  []item
	bell   chan struct{}
	closed bool
	clock  int64
	Has    []uint32 // endpoints
}

// item is an event for a node.
type item struct {
	to   *channel // nil for a connection request, and for items before the request is accepted
	from *channel
	what func()
	dice bool // the item is a message
	msg  []byte
	buf  int
}

// channel is one end of a connection.
type channel struct {
	n        *Node
	up       provider.Half
	peer     *channel // of a client: nil until the connection is accepted
	target   *Node    // of a client
	sends    [][]byte
	busy     []bool
	back     []bool // the last message has returned
	writing  []bool
	windows  []window
	kept     int // packets
	receives int
	station  ethertype.MAC
	taken    int // of the budget
	over     bool
}

type window struct {
	mem    []byte
	handle uint32
}

// Open opens the provider of a node.
func (s *Segment) Open(up provider.Host, memory *provider.Budget) *Node {
	n := &Node{seg: s, up: up, memory: memory, at: ethertype.Addr{Port: uint16(1 + len(s.nodes))}, bell: make(chan struct{}, 1)}
	s.nodes = append(s.nodes, n)
	return n
}

// send puts an item into the inbox of node n.
func (n *Node) send(x item) {
	n.inbox = append(n.inbox, x)
	n.Wake()
}

// Dial is provider.Dialer's.
func (n *Node) Dial(to wire.Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	ch := n.channel(greeting.Shape, wire.Asking, up)
	at := int(to.Addr.Port) - 1
	if at < 0 || at >= len(n.seg.nodes) {
		return nil, provider.OpError("connect", provider.ErrArgument, "there is no node at %v", to.Addr)
	}
	ch.target = n.seg.nodes[at]
	ch.target.inbox = append(ch.target.inbox, item{from: ch, what: func() { ch.target.accept(ch, greeting) }})
	return ch, nil
}

func (n *Node) channel(s wire.Shape, at wire.Side, up provider.Half) *channel {
	ch := &channel{n: n, up: up, sends: make([][]byte, s.NumSends()), busy: make([]bool, s.NumSends()), back: make([]bool, s.NumSends()), writing: make([]bool, s.Slots),
		windows: make([]window, s.Slots), receives: s.Receives()}
	for i := range ch.sends {
		ch.sends[i] = make([]byte, s.Sends(i, at))
	}
	return ch
}

// accept decides about a connection request.
func (n *Node) accept(from *channel, greeting wire.Hello) {
	if from.over {
		return
	}
	up, reason := n.up.Admit(&greeting)
	size := greeting.Shape.Memory(wire.Serving)
	if reason == 0 && !n.memory.Take(greeting.From.Addr.MAC, size) {
		reason = wire.ReasonCongestion
	}
	if reason != 0 {
		n.up.Refused(reason)
		from.n.send(item{to: from, what: func() { from.breaks(reason) }})
		return
	}
	ch := n.channel(greeting.Shape, wire.Serving, up)
	ch.peer, ch.station, ch.taken, from.peer = from, greeting.From.Addr.MAC, size, ch
	n.up.Attach(up, ch)
}

// breaks reports the end of the connection, once.
func (ch *channel) breaks(reason wire.Reason) {
	ch.over = true
	ch.up.Broken(reason, nil)
}

// Addr returns the node's address.
func (n *Node) Addr() ethertype.Addr { return n.at }

// Now returns a time that advances by a microsecond with each call.
func (n *Node) Now() int64 {
	n.clock += 1000
	return n.clock
}

// Virtual returns false.
func (n *Node) Virtual() bool { return false }

// Opened notes an endpoint.
func (n *Node) Opened(id uint32) { n.Has = append(n.Has, id) }

// Tagged does nothing.
func (n *Node) Tagged(uint32, wire.Tag) {}

// Ended forgets an endpoint.
func (n *Node) Ended(id uint32) {
	n.Has = slices.DeleteFunc(n.Has, func(x uint32) bool { return x == id })
}

// Advertise tells the segment a name.
func (n *Node) Advertise(name string) error {
	n.seg.names[name] = n.at
	return nil
}

// Withdraw undoes Advertise.
func (n *Node) Withdraw(name string) {
	delete(n.seg.names, name)
}

// Lookup returns where a name is, if it is anywhere.
func (n *Node) Lookup(ctx context.Context, _ ethertype.Addr, name string) (ethertype.Addr, error) {
	at, ok := n.seg.names[name]
	if !ok {
		return at, provider.OpError("lookup", provider.ErrResource, "nobody is called %q", name)
	}
	return at, ctx.Err()
}

// Poll delivers some of the pending items to the node.
func (n *Node) Poll() error {
	if n.closed {
		return provider.ErrClosed
	}
	now := n.inbox
	n.inbox = nil
	n.seg.rng.Shuffle(len(now), func(i, k int) { now[i], now[k] = now[k], now[i] })
	count := (len(now) + 1) / 2 // the others arrive late
	n.inbox = append(n.inbox, now[count:]...)
	for _, x := range now[:count] {
		switch {
		case x.dice:
			n.arrive(x)
		case x.to == nil || !x.to.over:
			x.what()
		}
	}
	return nil
}

// chance reports whether an event with the given probability happens.
func (s *Segment) chance(percent int) bool {
	return s.rng.IntN(100) < percent
}

// arrive delivers a message, or returns or refuses it.
func (n *Node) arrive(x item) {
	s, from := n.seg, x.from
	to := from.peer
	if to == nil && !from.over { // the connection is not complete
		n.send(x)
		return
	}
	if to == nil || to.over {
		return
	}
	if !bytes.Equal(x.msg, from.sends[x.buf][:len(x.msg)]) {
		panic("a message was changed while it was under way")
	}
	back := func() { from.free(x.buf); from.up.Undelivered(x.buf, wire.ReasonUnreachable) }
	switch {
	case to.kept == to.receives || s.chance(s.rough.Nack):
		n.send(x)
		return
	case s.rough.Return == 100 || !from.back[x.buf] && s.chance(s.rough.Return):
		from.back[x.buf] = true
		from.n.send(item{to: from, what: back})
		return
	case !from.back[x.buf] && s.chance(s.rough.Mistake):
		from.back[x.buf] = true
		from.n.send(item{to: from, what: back})
	default:
		from.back[x.buf] = false
		from.n.send(item{to: from, what: func() { from.free(x.buf); from.up.Sent() }})
	}
	p := &provider.Packet{Home: to}
	body, ok := p.Head.Parse(x.msg, nil)
	if !ok {
		panic(fmt.Sprintf("no message: %x", x.msg))
	}
	p.Body = body
	to.kept++
	to.up.Received(p)
}

func (ch *channel) free(i int) { ch.busy[i] = false }

// CatchUp does nothing.
func (n *Node) CatchUp() {}

// Wait waits until there is something for Deliver.
func (n *Node) Wait(ctx context.Context) error {
	select {
	case <-n.bell:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Deliver is Poll. It handles no message at once.
func (n *Node) Deliver(bool) bool {
	n.Poll()
	left := len(n.inbox)
	if left > 0 {
		n.Wake()
	}
	return false
}

// Flush does nothing, because nothing is corked.
func (n *Node) Flush(wire.Side) {}

// Wake ends a Wait.
func (n *Node) Wake() {
	select {
	case n.bell <- struct{}{}:
	default:
	}
}

// gate is a gate of one goroutine.
type gate chan struct{}

// Gate returns a gate.
func (n *Node) Gate() provider.Gate { return make(gate, 1) }

// Wait is provider.Gate's.
func (g gate) Wait(ctx context.Context) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Open is provider.Gate's.
func (g gate) Open() {
	select {
	case g <- struct{}{}:
	default:
	}
}

// Drain does nothing: messages that were sent arrive even if the node is closed.
func (n *Node) Drain(func() bool) {}

// Close closes the node.
func (n *Node) Close() error {
	n.closed = true
	return nil
}

// Buffer is provider.Channel's.
func (ch *channel) Buffer(i int) []byte { return ch.sends[i] }

// Post is provider.Channel's.
func (ch *channel) Post(i, n, _ int) {
	if ch.busy[i] {
		panic(fmt.Sprintf("send buffer %d is posted while its last message is under way", i))
	}
	if ch.over {
		return
	}
	ch.busy[i] = true
	to := ch.target
	if to == nil {
		to = ch.peer.n
	}
	to.send(item{from: ch, dice: true, msg: bytes.Clone(ch.sends[i][:n]), buf: i})
}

// Idle is provider.Channel's.
func (ch *channel) Idle(i int) bool { return !ch.busy[i] }

// Grant is provider.Channel's.
func (ch *channel) Grant(slot int, mem []byte) (wire.Window, error) {
	ch.windows[slot] = window{mem, ch.n.seg.rng.Uint32() | 1}
	return wire.Window{Addr: uint64(slot), Handle: ch.windows[slot].handle}, nil
}

// Revoke is provider.Channel's.
func (ch *channel) Revoke(slot int) { ch.windows[slot] = window{} }

// Write is provider.Channel's.
func (ch *channel) Write(slot int, data []byte, to wire.Window, _ bool) {
	if ch.writing[slot] {
		panic(fmt.Sprintf("two writes for slot %d", slot))
	}
	if ch.over {
		return
	}
	ch.writing[slot] = true
	peer := ch.peer
	peer.n.send(item{to: peer, what: func() {
		ch.n.send(item{to: ch, what: func() { ch.writing[slot] = false; ch.up.Wrote(slot) }})
		if w := &peer.windows[slot]; w.handle != to.Handle || w.handle == 0 {
			peer.n.up.Stray()
			return
		} else if len(data) > len(w.mem) {
			panic("a write that is longer than its window")
		} else {
			copy(w.mem, data)
			*w = window{}
		}
		peer.up.Placed(slot)
	}})
}

// Writing is provider.Channel's.
func (ch *channel) Land(int, int, int, []byte, bool) bool { return false }
func (ch *channel) Writing(slot int) bool                 { return ch.writing[slot] }

// Release is provider.Channel's.
func (ch *channel) Release(p *provider.Packet) {
	if p.Home != ch {
		panic("a packet is given back twice, or to another channel")
	}
	p.Home = nil
	ch.kept--
}

// Close is provider.Channel's.
func (ch *channel) Close() {
	if ch.taken > 0 {
		ch.n.memory.Give(ch.station, ch.taken)
		ch.taken = 0
	}
	if ch.over && ch.peer == nil {
		return
	}
	ch.over = true
	peer := ch.peer
	if peer != nil && !peer.over {
		peer.n.send(item{to: peer, what: func() { peer.breaks(wire.ReasonBadEndpoint) }})
	}
}

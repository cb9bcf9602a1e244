// Package loop is the provider for endpoints of the same node. It copies a message from the send
// buffer of one half to a receive buffer of the other, and bulk data from memory to memory. It
// delivers at once, so there is nothing to poll or wait for: the node waits for its other provider.
package loop

import (
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Provider makes channels between endpoints of one node. It is a Dialer.
type Provider struct {
	up     provider.Host
	memory *provider.Budget
}

// New returns the provider of the node up.
func New(up provider.Host, memory *provider.Budget) *Provider { return &Provider{up, memory} }

// Dial implements Dialer. When it returns, the channel is connected or refused.
func (l *Provider) Dial(to wire.Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	c := newChannel(greeting.Shape, wire.Asking, up)
	s, reason := l.up.Admit(&greeting)
	size := greeting.Shape.Memory(wire.Serving)
	if reason == 0 && !l.memory.Take(greeting.From.Addr.MAC, size) {
		reason = wire.ReasonCongestion
	}
	if reason != 0 {
		c.dead = reason
		return c, nil
	}
	c.peer = newChannel(greeting.Shape, wire.Serving, s)
	c.peer.peer, c.peer.memory, c.peer.taken, c.peer.from = c, l.memory, size, greeting.From
	l.up.Attach(s, c.peer)
	return c, nil
}

// channel is one end of a connection within the node.
type channel struct {
	up      provider.Half
	peer    *channel
	sends   [][]byte
	free    provider.Packets
	windows [][]byte
	dead    wire.Reason // why the other end has ended; 0 if it has not
	told    bool        // up has been notified of this
	closed  bool
	memory  *provider.Budget
	taken   int       // bytes taken from the budget
	from    wire.Name // name of the client that they were taken for
}

// receiveBuffer is a receive buffer.
type receiveBuffer struct {
	provider.Packet
	mem []byte
}

func newChannel(s wire.Shape, at wire.Side, up provider.Half) *channel {
	ch := &channel{up: up, sends: make([][]byte, s.NumSends()), windows: make([][]byte, s.Slots)}
	mem := make([]byte, s.Memory(at))
	cut := func(n int) []byte {
		b := mem[:n:n]
		mem = mem[n:]
		return b
	}
	for i := range ch.sends {
		ch.sends[i] = cut(s.Sends(i, at))
	}
	for range s.Receives() {
		p := &receiveBuffer{mem: cut(s.Full())}
		p.Home = p
		ch.free.Push(&p.Packet)
	}
	return ch
}

func (ch *channel) Buffer(i int) []byte { return ch.sends[i] }
func (ch *channel) Idle(int) bool       { return true }
func (ch *channel) Writing(int) bool    { return false }

// Land does nothing: a reply within the node costs no round trip.
func (ch *channel) Land(int, int, int, []byte, bool) bool { return false }

// gone notifies up, when it sends, that the other end has ended.
func (ch *channel) gone() bool {
	if ch.dead != 0 && !ch.told {
		ch.told = true
		ch.up.Broken(ch.dead, nil)
	}
	return ch.dead != 0 || ch.closed
}

func (ch *channel) Post(i, n, _ int) {
	if ch.gone() {
		return
	}
	p := ch.peer.free.Pop()
	mem := p.Home.(*receiveBuffer).mem
	p.Body, _ = p.Head.Parse(mem[:copy(mem, ch.sends[i][:n])], nil)
	ch.peer.up.Received(p)
}

func (ch *channel) Grant(slot int, mem []byte) (wire.Window, error) {
	ch.windows[slot] = mem
	return wire.Window{}, nil
}

func (ch *channel) Revoke(slot int) { ch.windows[slot] = nil }

func (ch *channel) Write(slot int, data []byte, _ wire.Window, _ bool) {
	if ch.gone() {
		return
	}
	copy(ch.peer.windows[slot], data)
	ch.peer.windows[slot] = nil
	ch.up.Wrote(slot)
	ch.peer.up.Placed(slot)
}

func (ch *channel) Release(p *provider.Packet) {
	ch.free.Push(p)
}

// errFreed ends connections within a node.
var errFreed = errors.New("the endpoint has been freed")

func (ch *channel) Close() {
	if ch.closed {
		return
	}
	ch.closed = true
	if ch.taken > 0 {
		ch.memory.Give(ch.from.Addr.MAC, ch.taken)
	}
	if p := ch.peer; p != nil && !p.closed && p.dead == 0 {
		p.dead, p.told = wire.ReasonBadEndpoint, true
		p.up.Broken(p.dead, errFreed)
	}
}

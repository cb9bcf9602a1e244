package endpoint

import "errors"

// loop is the provider for endpoints of one node: a message is copied from the
// send buffer of one half to a receive buffer of the other, and bulk data from
// memory to memory. Its channels have the same number of buffers as those of
// virtual interfaces, and the halves cannot tell the difference. What is
// posted is delivered at once, so there is nothing to poll or wait for: the
// node waits for its other provider.
type loop struct{ node *Node }

func (l *loop) dial(to Name, greeting hello, up half) (channel, error) {
	c := newLoopChannel(greeting.shape, asking, up)
	s, reason := l.node.admit(&greeting)
	if reason != 0 {
		c.dead = reason
		return c, nil
	}
	c.peer = newLoopChannel(greeting.shape, serving, s)
	c.peer.peer = c
	l.node.attach(s, c.peer)
	return c, nil
}

// loopChannel is one end of a connection within the node.
type loopChannel struct {
	up      half
	peer    *loopChannel
	sends   [][]byte
	free    packets
	windows [][]byte
	dead    Reason // why nobody is at the other end; 0: somebody is
	told    bool   // and up has heard it
	closed  bool
}

// loopPacket is a receive buffer.
type loopPacket struct {
	packet
	mem []byte
}

func newLoopChannel(s shape, at side, up half) *loopChannel {
	ch := &loopChannel{up: up, sends: make([][]byte, s.numSends()), windows: make([][]byte, s.slots)}
	mem := make([]byte, s.memory(at))
	cut := func(n int) []byte {
		b := mem[:n:n]
		mem = mem[n:]
		return b
	}
	for i := range ch.sends {
		ch.sends[i] = cut(s.sends(i, at))
	}
	for range s.receives() {
		p := &loopPacket{mem: cut(s.full())}
		p.home = p
		ch.free.push(&p.packet)
	}
	return ch
}

func (ch *loopChannel) buffer(i int) []byte { return ch.sends[i] }
func (ch *loopChannel) idle(int) bool       { return true }
func (ch *loopChannel) writing(int) bool    { return false }

// gone tells up, when it sends something, that nobody is there.
func (ch *loopChannel) gone() bool {
	if ch.dead != 0 && !ch.told {
		ch.told = true
		ch.up.broken(ch.dead, nil)
	}
	return ch.dead != 0 || ch.closed
}

func (ch *loopChannel) post(i, n, _ int) {
	if ch.gone() {
		return
	}
	p := ch.peer.free.pop()
	mem := p.home.(*loopPacket).mem
	p.body, _ = p.head.parse(mem[:copy(mem, ch.sends[i][:n])], nil)
	ch.peer.up.received(p)
}

func (ch *loopChannel) grant(slot int, mem []byte) (window, error) {
	ch.windows[slot] = mem
	return window{}, nil
}

func (ch *loopChannel) revoke(slot int) { ch.windows[slot] = nil }

func (ch *loopChannel) write(slot int, data []byte, _ window) {
	if ch.gone() {
		return
	}
	copy(ch.peer.windows[slot], data)
	ch.peer.windows[slot] = nil
	ch.up.wrote(slot)
	ch.peer.up.placed(slot)
}

func (ch *loopChannel) release(p *packet) {
	ch.free.push(p)
}

// errFreed ends connections within a node.
var errFreed = errors.New("the endpoint has been freed")

func (ch *loopChannel) close() {
	if ch.closed {
		return
	}
	ch.closed = true
	if p := ch.peer; p != nil && !p.closed && p.dead == 0 {
		p.dead, p.told = ReasonBadEndpoint, true
		p.up.broken(p.dead, errFreed)
	}
}

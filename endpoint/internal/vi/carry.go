package vi

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// A VI message of two: a reply and a request
//
// A reply that may wait for what the program posts next is posted as one that the NIC keeps for so
// long (vipl.Descriptor.Next). If the next post is a request on the opposite channel, the NIC gives
// the reply back, and both go in one VI message, on the one that carries for both: that one's own message
// first, in its own send buffer, and behind that a copy of the other one, which is piggybacked. It saves
// a descriptor, a receive and two completions of the four that the two would take; and
// acknowledgements go with messages, as they do when a VI is used both ways.
//
// The receiver hands on the reply first, whichever channel it is of: it is what the program waits
// for. The channel's own message stays where it is. The piggybacked one does so only while it is
// handled at once; if it has to wait for its turn it is copied, so that the channel that carries needs
// no more receives.

// piggyback is a message that goes with one of the opposite channel: its send buffer, which is idle
// when that has landed.
type piggyback struct {
	ch *channel // nil: there is none
	x  *sendBuffer
}

// piggybackBuffer holds a message that came piggybacked and has not been handled.
type piggybackBuffer struct{ mem [wire.SmallSize]byte }

// piggybackRoom returns how much longer send buffer i is made, for another message behind its own.
// Those of messages with payloads have room while the payload is short.
func piggybackRoom(s wire.Shape, i int, at wire.Side) int {
	if at == wire.Asking && i < s.Small {
		return wire.SmallSize
	}
	return 0
}

// launchNext posts a send that may wait for the program's next post.
func (ch *channel) launchNext(x *sendBuffer) {
	x.desc.Next = true
	ch.launch(x)
	if ch.opposite.ch != nil {
		ch.way.held = piggyback{ch, x}
	}
}

// carry sends the message in x together with the reply that waits for it. It reports false, and sends
// nothing, if there is none for it.
func (ch *channel) carry(x *sendBuffer) bool {
	w, reply, request := ch.way, ch.way.held, piggyback{ch, x}
	w.held = piggyback{}
	if reply.ch != ch.opposite.ch || !wire.Kind(x.mem[0]).Request() {
		return false
	}
	host, r := request, reply
	if !ch.opposite.carries {
		host, r = reply, request
	}
	if r.x.n > wire.SmallSize || wire.Rounded(host.x.n)+r.x.n > len(host.x.mem) || !reply.ch.vi.Retract(&reply.x.desc) {
		return false
	}
	reply.ch.corking.flying--
	w.flying--
	host.ch.launchWith(host.x, r)
	return true
}

// launchWith posts a send with a message behind it, for which there is room.
func (ch *channel) launchWith(x *sendBuffer, r piggyback) {
	x.desc.Next = false
	x.piggyback = r
	x.segs[0].Data = x.mem[:wire.Carry(x.mem, x.n, r.x.mem[:r.x.n])]
	ch.start(x)
}

// leave takes it off the message in x.
func (r piggyback) leave(x *sendBuffer) {
	x.piggyback = piggyback{}
	x.mem[0] &^= wire.Carries
}

// landed hears that the message in x has arrived, and so has this one.
func (r piggyback) landed(x *sendBuffer) {
	r.leave(x)
	r.x.busy = false
	if !r.ch.closed && !r.ch.broken {
		r.ch.up.Sent()
		r.ch.resume()
	}
}

// again sends it on its own channel, since that of x has ended.
func (r piggyback) again(x *sendBuffer) {
	r.leave(x)
	r.ch.launch(r.x)
}

// carried hands on the two messages of a VI message of so many bytes, at once if their halves handle
// them so. It returns how many have been.
func (ch *channel) carried(x *receiveBuffer, length int, atOnce bool) (handled int) {
	x.refs = 1 // until both have been handed on
	first, second, ok := wire.SplitTwo(x.mem[:length])
	if !ok {
		ch.way.up.Stray()
		ch.unuse(x)
		return 0
	}
	two, own := [2][]byte{first, second}, 0
	if ch.side == wire.Serving { // the reply is the piggybacked one
		two, own = [2][]byte{second, first}, 1
	}
	i := 0
	defer func() { // also if a handler ends the goroutine
		for ; i < len(two); i++ {
			ch.handOne(two[i], i == own, x, false)
		}
		ch.unuse(x)
	}()
	for i < len(two) {
		if i++; ch.handOne(two[i-1], i-1 == own, x, atOnce) {
			handled++
		}
	}
	return handled
}

// handOne hands on one of two messages, the channel's own or the other one.
func (ch *channel) handOne(m []byte, own bool, x *receiveBuffer, atOnce bool) bool {
	if own {
		return ch.handOwn(m, x, atOnce)
	}
	return ch.handPiggyback(m, atOnce)
}

// handOwn hands on a message of the channel's own in x. It reports whether it was handled at once.
func (ch *channel) handOwn(m []byte, x *receiveBuffer, atOnce bool) bool {
	p := ch.parse(m)
	if p == nil {
		return false
	}
	x.refs++
	p.Home = x
	if atOnce && ch.up.HandleNow(p) {
		return true
	}
	ch.up.Received(p)
	return false
}

// handPiggyback hands on a message of the opposite channel. It reports whether it was handled at once.
func (ch *channel) handPiggyback(m []byte, atOnce bool) bool {
	o := ch.opposite.ch
	if o == nil || len(m) > wire.SmallSize { // it has ended, and the other node does not know
		ch.way.up.Stray()
		return false
	}
	p := o.parse(m)
	if p == nil {
		return false
	}
	p.Home = nil // which only lasts until it has been handled
	if atOnce && o.up.HandleNow(p) {
		return true
	}
	b := o.piggybackBuffer()
	if b == nil {
		ch.way.spare.Push(p)
		ch.way.up.Stray()
		return false
	}
	n := copy(b.mem[:], m)
	p.Body, p.Home = b.mem[n-len(p.Body):n], b
	o.up.Received(p)
	return false
}

// parse returns the packet of a message that is the half's, or nil.
func (ch *channel) parse(m []byte) *provider.Packet {
	if ch.closed || ch.broken {
		return nil
	}
	p := ch.way.packet()
	body, ok := p.Head.Parse(m, nil)
	if !ok || p.Head.Kind.Own() {
		ch.way.spare.Push(p)
		ch.way.up.Stray()
		return nil
	}
	ch.heard(int(p.Head.Slot))
	p.Body = body
	return p
}

// piggybackBuffer returns a buffer, or nil if the half keeps more messages than it may.
func (ch *channel) piggybackBuffer() *piggybackBuffer {
	o := &ch.opposite
	if k := len(o.spare); k > 0 {
		b := o.spare[k-1]
		o.spare = o.spare[:k-1]
		return b
	}
	if o.made > len(ch.windows) {
		return nil
	}
	o.made++
	return new(piggybackBuffer)
}

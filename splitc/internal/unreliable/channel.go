package unreliable

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// channel is msg.Flow with a window.
type channel struct {
	*msg.Channel
	l    *msg.Layer
	w    window
	send []send                // by buffer: of requests by number, of replies, and of no-op replies
	held [classes][]*mesh.Recv // messages that have arrived and are not processed, by number
}

// send is a send buffer, which keeps its message until it is acknowledged.
type send struct {
	number uint32
	size   uint16
	posted bool
}

func newChannel(l *msg.Layer, base *msg.Channel) *channel {
	n := credits[base.Kind]
	c := &channel{Channel: base, l: l, w: newWindow(n), send: make([]send, classes*n+1)}
	for class := range classes {
		c.held[class] = make([]*mesh.Recv, n)
	}
	return c
}

// place returns the buffer of a message of a class.
func (c *channel) place(class int, number uint32) int {
	return class*int(c.w.size) + c.w.place(number)
}

// next returns the buffer for the next message of a class.
func (c *channel) next(class int) int { return c.place(class, c.w.out[class].next) }

// noOp returns the buffer for no-op replies.
func (c *channel) noOp() int { return len(c.send) - 1 }

// free reports whether the next message of a class may be sent.
func (c *channel) free(class int) bool { return !c.w.full(class) && !c.send[c.next(class)].posted }

// Room implements msg.Flow.
func (c *channel) Room() bool { return c.free(request) && c.Pending.Room() }

// Request implements msg.Flow.
func (c *channel) Request() []byte { return c.Buffer(c.next(request))[headSize:] }

// Send implements msg.Flow.
func (c *channel) Send(n int, data []byte) {
	n += copy(c.Request()[n:], data)
	c.first(request, n, c.l.NIC.Now())
}

// Quiet implements msg.Flow: everything sent is acknowledged, and no acknowledgement is owed.
func (c *channel) Quiet() bool { return c.w.quiet() && c.w.owed == 0 }

// post sends the message in a buffer, for the first time or again, with the current
// acknowledgements.
//
// Messages that are posted faster than this rank polls wait for each other, so that they share
// frames. The first two are sent at once, and later ones in groups of share. Messages that may be
// sent later wait, too.
func (c *channel) post(buffer int, later bool) {
	le, s := binary.LittleEndian, &c.send[buffer]
	mem := c.Buffer(buffer)[:s.size]
	ofRequests, ofReplies := c.w.acks()
	le.PutUint32(mem, s.number)
	le.PutUint32(mem[4:], ofRequests)
	le.PutUint32(mem[8:], ofReplies)
	mem[headSize+1] = 0
	if c.l.Post(c.Channel, buffer, int(s.size), nil, later || c.Sending >= 2 && (c.Sending+1)%share != 0) {
		s.posted = true
	}
}

// first sends the next message of a class, with n bytes after its head, for the first time.
func (c *channel) first(class, n int, now int64) {
	buffer := c.next(class)
	s := &c.send[buffer]
	s.number, s.size = c.w.assignNumber(class, now), uint16(headSize+n)
	c.post(buffer, class == reply && c.l.GoesOn())
}

// share is the number of messages that are sent together.
const share = 16

// service sends due retransmissions, and the no-op reply.
func (c *channel) service(now int64) {
	c.advance()
	for class := range classes {
		for n, ok := c.w.overdue(class, c.w.out[class].first, now); ok && c.Gone == nil; n, ok = c.w.overdue(class, n+1, now) {
			c.again(class, n)
		}
	}
	c.speak(now)
}

// again sends a message again.
func (c *channel) again(class int, n uint32) {
	if buffer := c.place(class, n); !c.send[buffer].posted {
		c.l.Did.Retransmissions++
		c.post(buffer, false)
	}
}

// A no-op reply contains, after its head, a word for each class with the messages that its sender
// holds: bit i is for message i after the acknowledged one.
const (
	heldAt   = headSize + msg.HeaderSize
	noOpSize = heldAt + 8*classes
)

// speak sends the no-op reply if it is due.
func (c *channel) speak(now int64) {
	s := &c.send[c.noOp()]
	if s.posted || c.Gone != nil || !c.w.speaks(now) {
		return
	}
	c.l.Did.NoOps++
	m := c.Buffer(c.noOp())
	clear(m[headSize:heldAt])
	m[headSize] = msg.NoOp
	for class, held := range c.w.holds(now) {
		binary.LittleEndian.PutUint64(m[heldAt+8*class:], held)
	}
	s.size = noOpSize
	c.post(c.noOp(), false)
}

// repair sends the messages again that a no-op reply, which may be invalid, reports as missing.
func (c *channel) repair(m []byte) {
	if len(m) < noOpSize {
		return
	}
	le := binary.LittleEndian
	for class := range classes {
		base, held := le.Uint32(m[4+4*class:]), le.Uint64(m[heldAt+8*class:])
		for n, ok := c.w.missing(class, base, held, base, c.l.Clock); ok && c.Gone == nil; n, ok = c.w.missing(class, base, held, n+1, c.l.Clock) {
			c.again(class, n)
		}
	}
}

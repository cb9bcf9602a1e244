package unreliable

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// Sent implements msg.Flow. A request may wait for the buffer.
func (c *channel) Sent(buffer int, err error) {
	if c.send[buffer].posted = false; err == nil {
		c.advance()
	}
}

// Received implements msg.Flow.
func (c *channel) Received(r *mesh.Recv) {
	if !c.receive(r) {
		c.l.Repost(&c.End, r)
		return
	}
	c.advance()
	c.speak(c.l.Clock)
}

// classOf returns the class of a kind of message.
func classOf(kind byte) int {
	if msg.IsReply(kind) {
		return reply
	}
	return request
}

// receive processes a frame, and reports whether it keeps the receive until the message is
// processed.
func (c *channel) receive(r *mesh.Recv) bool {
	le := binary.LittleEndian
	m := r.Data()
	if len(m) < headSize+msg.HeaderSize || !msg.Valid(m[headSize]) {
		c.l.Did.Strays++
		return false
	}
	// Both are validated before either is used.
	ofRequests, ofReplies := le.Uint32(m[4:]), le.Uint32(m[8:])
	if int32(ofReplies-c.w.out[reply].next) > 0 || !c.w.acknowledged(request, ofRequests) {
		c.l.Did.Strays++
		return false
	}
	c.w.acknowledged(reply, ofReplies)
	kind, number := m[headSize], le.Uint32(m)
	if kind == msg.NoOp {
		c.repair(m)
		return false
	}
	class := classOf(kind)
	switch c.w.arrived(class, number) {
	case fresh:
		place := &c.held[class][c.w.place(number)]
		if *place != nil {
			c.l.Did.Duplicates++
			return false
		}
		*place = r
		return true
	case repeats:
		c.l.Did.Duplicates++
	case outside:
		c.l.Did.Strays++
	}
	return false
}

// advance processes held messages whose turn has come.
func (c *channel) advance() {
	for class := range classes {
		for c.Gone == nil && c.l.Err == nil && !c.l.Closed {
			place := &c.held[class][c.w.place(c.w.in[class])]
			r := *place
			if r == nil || class == request && msg.HasReply(r.Data()[headSize]) && !c.free(reply) {
				break
			}
			*place = nil
			if !c.process(class, r) {
				c.l.Garbled(&c.End)
			}
			c.l.Repost(&c.End, r)
		}
	}
}

// process handles a message, and reports whether it is valid.
func (c *channel) process(class int, r *mesh.Recv) bool {
	now, m := c.l.Clock, r.Data()[headSize:]
	if class == reply {
		ok := c.l.Replied(c.Channel, m)
		c.w.processed(reply, now)
		return ok
	}
	buffer := c.next(reply)
	n, ok := c.l.Serve(c.Rank, c.Kind, m, c.Buffer(buffer)[headSize:])
	c.w.processed(request, now)
	if ok && n > 0 {
		c.first(reply, n, now)
	}
	return ok
}

package reliable

import (
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
)

// Sent implements msg.Flow. It serves the requests that have waited for the buffer.
func (c *channel) Sent(buffer int, _ error) {
	c.release(buffer)
	for len(c.waiting) > 0 && len(c.replies) > 0 && c.Gone == nil && !c.l.Closed {
		r := c.waiting[0]
		copy(c.waiting, c.waiting[1:])
		c.waiting = c.waiting[:len(c.waiting)-1]
		if !c.serve(r) {
			c.l.Garbled(&c.End)
		}
	}
	c.tell()
}

// Received implements msg.Flow.
func (c *channel) Received(r *mesh.Recv) {
	if !c.l.Closed && !c.receive(r) {
		c.l.Garbled(&c.End)
	}
}

// unacknowledged returns the number of requests without replies that the rank has not acknowledged.
// The other used credits belong to requests that wait for their replies.
func (c *channel) unacknowledged() int { return c.total - c.credit - c.Pending.Count() }

// receive handles a message, and reports whether it is valid.
func (c *channel) receive(r *mesh.Recv) bool {
	m := r.Data()
	if len(m) < msg.HeaderSize || !msg.Valid(m[0]) || int(m[1]) > c.unacknowledged() {
		return false
	}
	c.credit += int(m[1])
	switch kind := m[0]; {
	case kind == msg.NoOp:
	case msg.IsReply(kind):
		if !c.l.Replied(c.Channel, m) {
			return false
		}
		c.credit++
	case len(c.waiting) > 0 || len(c.replies) == 0:
		if len(c.waiting) == c.total {
			return false
		}
		c.waiting = append(c.waiting, r)
		return true
	default:
		return c.serve(r)
	}
	c.l.Repost(&c.End, r)
	return true
}

// serve executes a request, and sends its reply. There must be a free reply buffer.
func (c *channel) serve(r *mesh.Recv) bool {
	buffer := last(c.replies)
	n, ok := c.l.Serve(c.Rank, c.Kind, r.Data(), c.Buffer(buffer))
	if !ok {
		return false
	}
	c.l.Repost(&c.End, r)
	switch {
	case n > 0:
		c.replies = c.replies[:len(c.replies)-1]
		c.post(buffer, n, nil, c.l.GoesOn())
	case c.done == c.total: // the rank has sent more than its credits
		return false
	default:
		c.done++
		c.tell()
	}
	return true
}

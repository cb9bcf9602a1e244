package reliable

import (
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// take handles a completion.
func (l *Layer) take(done *vipl.Completion) {
	c, ok := done.VI.Context.(*channel)
	if !ok {
		return
	}
	if done.Err != nil {
		if l.Broken(&c.End, done.Err); c.pending.Any() {
			l.Lost(&c.End)
		}
	}
	if s, sent := done.Descriptor.Context.(*mesh.Send); sent {
		c.sending--
		if s.Gathered() {
			l.Count.Sources--
		}
		c.release(uint8(l.Sent(s)))
		l.resume(c)
		l.tell(c)
		return
	}
	r := done.Descriptor.Context.(*mesh.Recv)
	if done.Err != nil || l.Closed {
		return
	}
	if !l.heard(c, r) {
		l.Did.Strays++
		l.Blame(&c.End, mesh.ErrGarbled)
	}
}

// resume does requests that have waited for buffers.
func (l *Layer) resume(c *channel) {
	for len(c.waiting) > 0 && len(c.replies) > 0 && c.Gone == nil && !l.Closed {
		r := c.waiting[0]
		copy(c.waiting, c.waiting[1:])
		c.waiting = c.waiting[:len(c.waiting)-1]
		if !l.serve(c, r) {
			l.Did.Strays++
			l.Blame(&c.End, mesh.ErrGarbled)
		}
	}
}

// heard handles a message, and reports whether it is one.
func (l *Layer) heard(c *channel, r *mesh.Recv) bool {
	m := r.Data()
	if len(m) < msg.HeaderSize || !msg.Valid(m[0]) || int(m[1]) > c.unheard() {
		return false
	}
	c.credit += int(m[1])
	switch kind := m[0]; {
	case kind == msg.NoOp:
	case msg.IsReply(kind):
		ok, refused := l.Replied(&c.pending, m)
		if refused != nil {
			l.Blame(&c.End, refused)
		}
		if !ok {
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
		return l.serve(c, r)
	}
	l.repost(c, r)
	return true
}

// serve does a request, and sends its reply. A reply buffer is free.
func (l *Layer) serve(c *channel, r *mesh.Recv) bool {
	buffer := last(c.replies)
	n, ok := l.Serve(c.Rank, c.kind, r.Data(), c.buffer(buffer))
	if !ok {
		return false
	}
	l.repost(c, r)
	switch {
	case n > 0:
		c.replies = c.replies[:len(c.replies)-1]
		l.post(c, buffer, n, nil, l.GoesOn())
	case c.done == c.total: // it has sent more than it had credits
		return false
	default:
		c.done++
		l.tell(c)
	}
	return true
}

// repost posts a receive again.
func (l *Layer) repost(c *channel, r *mesh.Recv) {
	if err := r.Post(c.VI); err != nil {
		l.Broken(&c.End, err)
	}
}

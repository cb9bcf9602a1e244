package unreliable

import (
	"encoding/binary"

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
		c.send[l.Sent(s)].posted = false
		c.posted--
		if done.Err == nil { // a request may wait for the buffer
			l.advance(c)
		}
		return
	}
	r := done.Descriptor.Context.(*mesh.Recv)
	if done.Err != nil {
		return
	}
	if !l.heard(c, r) {
		l.repost(c, r)
		return
	}
	l.advance(c)
	l.speak(c, l.Clock)
}

// classOf returns the class of a kind of message.
func classOf(kind byte) int {
	if msg.IsReply(kind) {
		return reply
	}
	return request
}

// heard takes in a frame, and reports whether it is held until it is processed.
func (l *Layer) heard(c *channel, r *mesh.Recv) bool {
	le := binary.LittleEndian
	m := r.Data()
	if len(m) < headSize+msg.HeaderSize || !msg.Valid(m[headSize]) {
		l.Did.Strays++
		return false
	}
	// Both are judged before either is believed.
	ofRequests, ofReplies := le.Uint32(m[4:]), le.Uint32(m[8:])
	if int32(ofReplies-c.w.out[reply].next) > 0 || !c.w.acknowledged(request, ofRequests) {
		l.Did.Strays++
		return false
	}
	c.w.acknowledged(reply, ofReplies)
	kind, number := m[headSize], le.Uint32(m)
	if kind == msg.NoOp {
		l.repair(c, m)
		return false
	}
	class := classOf(kind)
	switch c.w.arrived(class, number) {
	case fresh:
		place := &c.held[class][c.w.place(number)]
		if *place != nil {
			l.Did.Duplicates++
			return false
		}
		*place = r
		return true
	case repeats:
		l.Did.Duplicates++
	case outside:
		l.Did.Strays++
	}
	return false
}

// advance processes what is held, as far as its turn has come.
func (l *Layer) advance(c *channel) {
	for class := range classes {
		for c.Gone == nil && l.Err == nil && !l.Closed {
			place := &c.held[class][c.w.place(c.w.in[class])]
			r := *place
			if r == nil || class == request && msg.HasReply(r.Data()[headSize]) && !c.free(reply) {
				break
			}
			*place = nil
			if !l.process(c, class, r) {
				l.Did.Strays++
				l.Blame(&c.End, mesh.ErrGarbled)
			}
			l.repost(c, r)
		}
	}
}

// process does what a message is for, and reports whether it is one.
func (l *Layer) process(c *channel, class int, r *mesh.Recv) bool {
	now, m := l.Clock, r.Data()[headSize:]
	if class == reply {
		ok, refused := l.Replied(&c.pending, m)
		if refused != nil {
			l.Blame(&c.End, refused)
		}
		c.w.processed(reply, now)
		return ok
	}
	buffer := c.next(reply)
	n, ok := l.Serve(c.Rank, c.kind, m, c.mem(buffer)[headSize:])
	c.w.processed(request, now)
	if ok && n > 0 {
		l.first(c, reply, n, now)
	}
	return ok
}

// repost posts a receive again.
func (l *Layer) repost(c *channel, r *mesh.Recv) {
	if err := r.Post(c.VI); err != nil {
		l.Broken(&c.End, err)
	}
}

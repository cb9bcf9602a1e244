package endpoint

import "github.com/bobnet-go/bobnet/endpoint/internal/provider"

// Deferred is a request whose reply is sent after its handler has returned. It allows one reply,
// from any goroutine. Until then the request is in flight for its sender: it occupies one of the
// sender's credits, and returns if the connection ends. AM-II has no equivalent.
type Deferred struct {
	s    *server
	slot int
	use  uint32 // of the slot
}

// Defer defers the reply to the request of t. The handler need not and must not reply any more. The
// error is ErrResource as for Reply.
func (t Token) Defer() (Deferred, error) {
	s := t.s
	if s == nil {
		return Deferred{}, provider.OpError("defer", ErrResource, "only requests can be replied to")
	}
	n := s.ep.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.unanswered("defer"); err != nil {
		return Deferred{}, err
	}
	slot := &s.slots[s.current]
	s.replied = true
	slot.state = serverDeferred
	return Deferred{s, s.current, slot.use}, nil
}

// Reply sends a short reply, as Token.Reply does. It never waits, and handlers may call it, too.
// Nil means that the reply was sent, or that no one waits for it any more. The error is ErrResource
// if the request already has a reply.
func (d Deferred) Reply(handler uint8, args ...uint32) error {
	return d.reply(OpReply, handler, args, nil, 0)
}

// ReplyMedium sends a reply with a payload, as Token.ReplyMedium does. See Reply.
func (d Deferred) ReplyMedium(handler uint8, data []byte, args ...uint32) error {
	return d.reply(OpReplyMedium, handler, args, data, 0)
}

// ReplyBulk sends a reply with data for a segment, as Token.ReplyBulk does. See Reply.
func (d Deferred) ReplyBulk(handler uint8, data []byte, offset uint64, args ...uint32) error {
	return d.reply(OpReplyBulk, handler, args, data, offset)
}

func (d Deferred) reply(op Op, handler uint8, args []uint32, data []byte, offset uint64) error {
	s := d.s
	if s == nil {
		return provider.OpError(op.String(), ErrResource, "no request was deferred")
	}
	n := s.ep.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed || s.reason != 0 {
		return nil
	}
	slot := &s.slots[d.slot]
	if slot.state != serverDeferred || slot.use != d.use {
		return provider.OpError(op.String(), ErrResource, "the deferred request has been replied to")
	}
	// Another request's handler may be running.
	current, replied, together := s.current, s.replied, s.together
	s.current, s.together = d.slot, 0 // no caller flushes the batch
	slot.state = serverQueued
	err := s.reply(op, handler, args, data, offset)
	if err != nil {
		slot.state = serverDeferred
	}
	s.current, s.replied, s.together = current, replied, together
	return err
}

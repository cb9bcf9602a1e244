package endpoint

import (
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Handler handles a message (AM2 reference, section 5). It runs on the goroutine that polls and
// must not block. If the message is a request, it may reply once; it must not use the endpoint's
// bundle otherwise. The arguments, and the data of a medium message, lie in the library's memory
// and are valid until the handler returns. The data of a bulk message are the part of the
// endpoint's segment where they were placed. A short message has no data.
//
// If the handler panics, the process continues: the panic is logged and counted, and the request
// ends without a reply. The same happens if the handler ends its goroutine.
type Handler func(t Token, args []uint32, data []byte)

// ReturnHandler handles a returned message: handler 0 of AM-II. It must not block and cannot reply.
type ReturnHandler func(r *Returned)

// Token identifies the message that a handler handles. It is valid only while the handler runs.
type Token struct {
	s   *server
	c   *client
	use uint32
}

// Endpoint returns the endpoint that received the message (AM_GetDestEndpoint).
func (t Token) Endpoint() *Endpoint {
	if t.c != nil {
		return t.c.ep
	}
	return t.s.ep
}

// Source returns the name of the endpoint that sent the message (AM_GetSourceEndpoint).
func (t Token) Source() Name {
	if t.c != nil {
		return t.c.to
	}
	return t.s.from
}

// Tag returns the tag that the message carried (AM_GetMsgTag). A reply carries the tag that this
// endpoint had when it sent the request.
func (t Token) Tag() Tag {
	if t.c != nil {
		return t.c.tag
	}
	return t.s.slots[t.s.current].head.Tag
}

// Reply sends a short reply of at most MaxShort arguments (AM_Reply). It never waits. The error is
// ErrResource if the message already has a reply, is a reply itself, or its handler has ended. A
// reply with invalid arguments returns to the ReturnHandler, and the error is a *ReturnedError.
func (t Token) Reply(handler uint8, args ...uint32) error {
	return t.reply(OpReply, handler, args, nil, 0)
}

// ReplyMedium sends a reply with a payload of at most Config.MaxMedium bytes, which it copies
// (AM_ReplyI). See Reply.
func (t Token) ReplyMedium(handler uint8, data []byte, args ...uint32) error {
	return t.reply(OpReplyMedium, handler, args, data, 0)
}

// ReplyBulk sends a reply with at most MaxBulk bytes of data, which are placed at offset in the
// segment of the endpoint that sent the request (AM_ReplyXfer). It copies data, because a reply
// must not wait. See Reply.
func (t Token) ReplyBulk(handler uint8, data []byte, offset uint64, args ...uint32) error {
	return t.reply(OpReplyBulk, handler, args, data, offset)
}

func (t Token) reply(op Op, handler uint8, args []uint32, data []byte, offset uint64) error {
	s := t.s
	if s == nil {
		return provider.OpError(op.String(), ErrResource, "only requests can be replied to")
	}
	n := s.ep.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.unanswered(op.String()); err != nil {
		return err
	}
	if s.closed || s.reason != 0 { // no client waits for it any more
		s.replied = true
		return nil
	}
	return s.reply(op, handler, args, data, offset)
}

// unanswered returns the error for a reply to t by the named call.
func (t Token) unanswered(call string) error {
	switch {
	case t.s.use != t.use:
		return provider.OpError(call, ErrResource, "the handler of the request has returned")
	case t.s.replied:
		return provider.OpError(call, ErrResource, "the request has been replied to, or its reply was deferred")
	}
	return nil
}

// reply answers the current request, if the reply is valid.
func (s *server) reply(op Op, handler uint8, args []uint32, data []byte, offset uint64) error {
	if detail := badArgs(op, args, data, s.shape.Medium); detail != "" {
		r := Returned{Endpoint: s.ep, Reason: ReasonBadArgs, Op: op, Dest: -1, To: s.from, Handler: handler,
			Args: append([]uint32(nil), args...), Data: data, Offset: offset, Length: len(data)}
		err := &ReturnedError{Op: op, Reason: ReasonBadArgs, Detail: detail}
		r.Err = err
		s.ep.giveBack(&r)
		return err
	}
	s.answer(op, handler, args, data, offset)
	return nil
}

// badArgs returns why a message is invalid, as far as its sender can determine, or "".
func badArgs(op Op, args []uint32, data []byte, medium int) string {
	switch {
	case len(args) > MaxShort:
		return fmt.Sprintf("%d arguments are over the limit of %d (MaxShort)", len(args), MaxShort)
	case (op == OpRequestMedium || op == OpReplyMedium) && len(data) > medium:
		return fmt.Sprintf("the payload of %d bytes is longer than Config.MaxMedium, %d (bulk messages carry more)", len(data), medium)
	case len(data) > MaxBulk:
		return fmt.Sprintf("data of %d bytes is longer than MaxBulk, %d", len(data), MaxBulk)
	}
	return ""
}

// answer sends a reply to the current request, and ends the request unless the client must fetch
// the data.
func (s *server) answer(op Op, handler uint8, args []uint32, data []byte, offset uint64) {
	i := s.current
	slot := &s.slots[i]
	s.replied = true
	b := s.ch.Buffer(s.next(i))
	var h wire.Header
	h.Handler, h.Args, h.Slot, h.Use, h.Tag = handler, uint8(len(args)), uint16(i), slot.use, slot.head.ReplyTag
	slot.state = serverIdle
	switch {
	case op == OpReply:
		h.Kind = wire.KindReply
	case op == OpReplyMedium:
		h.Kind = wire.KindReplyMedium
	default:
		h.Kind, h.Offset, h.Length = wire.KindReplyBulk, offset, uint32(len(data))
		if len(data) > s.shape.Medium {
			h.Kind = wire.KindReplyAnnounce
			slot.state = serverAnnounced
			slot.source = s.stage(slot, data)
			data = nil
		}
	}
	n := wire.PutArgs(b, h.Put(b), args)
	n += copy(b[n:], data)
	if slot.state == serverAnnounced && s.land(i, n) {
		s.built(i, n, op)
		return
	}
	s.post(i, n, op)
}

// land sends the bulk reply of slot i, whose announcement has n bytes, at once, if it can.
func (s *server) land(i, n int) bool {
	slot := &s.slots[i]
	get := slot.head.Kind == wire.KindGet
	data := slot.source
	if get {
		data = s.ep.part(&slot.head)
	}
	if !s.ch.Land(s.next(i), i, n, data, false) {
		return false
	}
	slot.state, slot.fetching = serverIdle, get
	return true
}

// stage returns a copy of the data of a bulk reply. The data of a get stay in the segment, and
// stage returns nil for them. A slot's memory is reused when its last reply has been sent.
func (s *server) stage(slot *serverSlot, data []byte) []byte {
	if slot.head.Kind == wire.KindGet {
		s.keep(slot)
		return nil
	}
	b := &slot.bounce
	if s.ch.Writing(s.current) {
		b[0], b[1] = b[1], b[0]
	}
	if cap(b[0]) < len(data) {
		b[0] = make([]byte, len(data))
	}
	b[0] = b[0][:len(data)]
	copy(b[0], data)
	return b[0]
}

package endpoint_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint"
)

// What the model test wants: the oracle knows of each endpoint what it accepts
// and of each message what has become of it, and nothing of connections,
// credits, slots or time.

// modelState is what decides about messages to an endpoint.
type modelState struct {
	tag      endpoint.Tag
	handlers [256]bool
	segment  []byte
	shadow   []byte // what the segment has to look like
}

// modelEndpoint is an endpoint. A message that is refused was refused by one of
// the states that the endpoint had between its sending and its return.
type modelEndpoint struct {
	*endpoint.Endpoint
	*oracle
	serial int
	home   *modelNode
	bundle int
	states []*modelState // the last one holds
	maps   map[int]*modelMap
	freed  bool
}

func (e *modelEndpoint) now() *modelState { return e.states[len(e.states)-1] }

// change makes a new state, like the present one.
func (e *modelEndpoint) change() *modelState {
	s := *e.now()
	e.states = append(e.states, &s)
	return &s
}

// modelMap is a translation.
type modelMap struct {
	index  int
	to     *modelEndpoint // nil: a name that nobody has
	tag    endpoint.Tag
	serial uint32 // of the last message that was handled in order
	fresh  int    // sent since everything was settled
	mapped bool
}

// modelMessage is a request and all that has become of it.
type modelMessage struct {
	id       uint32
	op       endpoint.Op
	from     *modelEndpoint
	by       *modelMap
	replyTag endpoint.Tag // that from had
	since    int          // number of the state of by.to when it was sent
	mine     int          // the same of from
	handler  uint8
	args     []uint32
	data     []byte
	offset   uint64
	to       uint64 // of a get
	length   int

	handled, returned, replied, answered, rejected int
}

// long reports whether the data waits for the receiver's consent.
func (m *modelMessage) long() bool {
	return m.op == endpoint.OpRequestBulk && len(m.data) > endpoint.DefaultMaxMedium
}

func (m *modelMessage) String() string {
	return fmt.Sprintf("message %d, %v to handler %d with %d bytes (handled %d, returned %d, replied %d, answered %d, rejected %d times)",
		m.id, m.op, m.handler, max(len(m.data), m.length), m.handled, m.returned, m.replied, m.answered, m.rejected)
}

// judge says what an endpoint in state s does with a message.
func (s *modelState) judge(op endpoint.Op, tag endpoint.Tag, handler uint8, offset uint64, length int) endpoint.Reason {
	bulk := op == endpoint.OpRequestBulk || op == endpoint.OpReplyBulk || op == endpoint.OpGet
	size := uint64(len(s.segment))
	switch {
	case s.tag == endpoint.TagNone, s.tag != endpoint.TagAll && s.tag != tag:
		return endpoint.ReasonBadTag
	case op != endpoint.OpGet && !s.handlers[handler]:
		return endpoint.ReasonBadHandler
	case bulk && size == 0 && (length > 0 || offset > 0):
		return endpoint.ReasonBadOffset
	case bulk && (offset > size || uint64(length) > size-offset):
		return endpoint.ReasonBadLength
	}
	return 0
}

// oracle is told what happens, and keeps the first thing that was wrong.
type oracle struct {
	messages  []*modelMessage // by number
	unsettled []*modelMessage
	err       error
}

func (o *oracle) wrong(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

// message finds the one that args belong to.
func (o *oracle) message(args []uint32) *modelMessage {
	if len(args) == 0 || int(args[0]) >= len(o.messages) || !slices.Equal(args, o.messages[args[0]].args) {
		o.wrong("arguments %v belong to no message", args)
		return &modelMessage{by: &modelMap{}}
	}
	return o.messages[args[0]]
}

// handled hears that request handler number runs at e.
func (o *oracle) handled(e *modelEndpoint, number uint8, t endpoint.Token, args []uint32, data []byte) *modelMessage {
	m := o.message(args)
	m.handled++
	switch s := e.now(); {
	case m.handled != 1 || m.returned > 0 || m.by.to != e || m.handler != number || m.op == endpoint.OpGet || e.freed:
		o.wrong("endpoint %d handled by %d %v", e.serial, number, m)
	case s.judge(m.op, m.by.tag, number, m.offset, len(m.data)) != 0:
		o.wrong("endpoint %d handled, instead of refusing, %v", e.serial, m)
	case !bytes.Equal(data, m.data):
		o.wrong("the data is wrong of %v", m)
	case t.Source() != m.from.Name() || t.Tag() != m.by.tag || t.Endpoint() != e.Endpoint:
		o.wrong("source %v, tag %v: %v", t.Source(), t.Tag(), m)
	case m.op == endpoint.OpRequestBulk:
		copy(s.shadow[m.offset:], m.data)
	}
	if !m.long() {
		if m.id < m.by.serial {
			o.wrong("handled after number %d of the same translation: %v", m.by.serial, m)
		}
		m.by.serial = m.id
	}
	return m
}

// answered hears that the reply handler runs at e.
func (o *oracle) answered(e *modelEndpoint, t endpoint.Token, args []uint32, data []byte) {
	m := o.message(args)
	m.answered++
	switch s := e.now(); {
	case m.answered != 1 || m.returned+m.rejected > 0 || m.from != e || e.freed || m.op != endpoint.OpGet && m.replied != 1:
		o.wrong("endpoint %d got a reply to %v", e.serial, m)
	case s.tag != endpoint.TagAll && s.tag != m.replyTag || !s.handlers[hReply]:
		o.wrong("endpoint %d did not refuse the reply to %v", e.serial, m)
	case t.Source() != m.by.to.Name() || t.Tag() != m.replyTag || t.Endpoint() != e.Endpoint:
		o.wrong("source %v, tag %v of the reply to %v", t.Source(), t.Tag(), m)
	case m.op == endpoint.OpGet:
		if !bytes.Equal(data, still(m.by.to, m.offset, m.length)) {
			o.wrong("the data is wrong of %v", m)
		}
		copy(s.shadow[m.to:], data)
	default:
		want := replyData(m)
		if !bytes.Equal(data, want) {
			o.wrong("the reply's data is wrong, to %v", m)
		}
		if k := replyKind(m); k == replyBulk || k == replyLong {
			copy(s.shadow[m.replyOffset():], want)
		}
	}
}

// returnedTo hears that a message has come back to e.
func (o *oracle) returnedTo(e *modelEndpoint, r *endpoint.Returned) {
	m := o.message(r.Args)
	if r.Op >= endpoint.OpReply && r.Op != endpoint.OpGet {
		o.replyReturned(e, m, r)
		return
	}
	m.returned++
	switch {
	case m.returned != 1 || m.answered > 0 || m.from != e || e.freed:
		o.wrong("came back to endpoint %d for %v: %v", e.serial, r.Reason, m)
	case r.Op != m.op || r.Handler != m.handler || r.Endpoint != e.Endpoint || r.Offset != m.offset && m.op >= endpoint.OpRequestBulk:
		o.wrong("came back as %v to handler %d, offset %d: %v", r.Op, r.Handler, r.Offset, m)
	case !bytes.Equal(r.Data, m.data) && (r.Data != nil || !m.long()):
		o.wrong("came back with %d bytes: %v", len(r.Data), m)
	case m.by.mapped && r.Dest != m.by.index || !m.by.mapped && r.Dest != -1 && !m.by.gone():
		o.wrong("came back from index %d, mapped %v at %d: %v", r.Dest, m.by.mapped, m.by.index, m)
	case !m.refusable(r.Reason):
		o.wrong("came back for %v: %v", r.Reason, m)
	}
}

func (m *modelMap) gone() bool { return m.to == nil || m.to.freed }

// refusable reports whether someone can have refused the request for a reason.
func (m *modelMessage) refusable(reason endpoint.Reason) bool {
	if reason == endpoint.ReasonBadEndpoint {
		return m.by.gone()
	}
	if m.by.to == nil || m.handled > 0 {
		return false
	}
	for _, s := range m.by.to.states[m.since:] {
		if s.judge(m.op, m.by.tag, m.handler, m.offset, max(len(m.data), m.length)) == reason {
			return true
		}
	}
	return m.op == endpoint.OpGet && m.replyRefusable(reason)
}

// replyRefusable reports whether the asker can have refused the reply.
func (m *modelMessage) replyRefusable(reason endpoint.Reason) bool {
	op, offset, length := endpoint.OpReply, uint64(0), 0
	switch k := replyKind(m); {
	case m.op == endpoint.OpGet:
		op, offset, length = endpoint.OpReplyBulk, m.to, m.length
	case k == replyBulk || k == replyLong:
		op, offset, length = endpoint.OpReplyBulk, m.replyOffset(), len(replyData(m))
	}
	for _, s := range m.from.states[m.mine:] {
		if r := s.judge(op, m.replyTag, hReply, offset, length); r != 0 && (r == reason || reason == 0) {
			return true
		}
	}
	return false
}

// replyReturned hears that a reply has come back to e.
func (o *oracle) replyReturned(e *modelEndpoint, m *modelMessage, r *endpoint.Returned) {
	m.rejected++
	switch {
	case m.rejected != 1 || m.replied != 1 || m.answered > 0 || m.by.to != e || r.Op != replyOps[replyKind(m)] || r.Handler != hReply:
		o.wrong("%v came back to endpoint %d for %v: %v", r.Op, e.serial, r.Reason, m)
	case r.Reason != endpoint.ReasonReplyRejected || !m.replyRefusable(0):
		o.wrong("the reply came back for %v: %v", r.Reason, m)
	case !bytes.Equal(r.Data, replyData(m)):
		o.wrong("the reply came back with %d bytes: %v", len(r.Data), m)
	}
}

// ended reports whether all is known of a message that there will be.
func (m *modelMessage) ended() bool {
	switch {
	case m.from.freed:
	case m.returned == 1 && (m.handled == 0 || m.by.gone()):
	case m.returned == 0 && m.op == endpoint.OpGet && m.answered == 1:
	case m.returned == 0 && m.handled == 1 && m.replied == 0:
	case m.returned == 0 && m.handled == 1 && m.answered+m.rejected == 1:
	case m.returned == 0 && m.handled == 1 && m.by.gone() && m.replyRefusable(0): // whose reply has nobody to go back to
	default:
		return false
	}
	return true
}

// pending drops what has ended and reports whether something has not.
func (o *oracle) pending() bool {
	o.unsettled = slices.DeleteFunc(o.unsettled, (*modelMessage).ended)
	return len(o.unsettled) > 0
}

// memory wants the segments to hold what was handled, and nothing besides. What
// a freed endpoint had sent may have been written and not handled.
func (e *modelEndpoint) memory(freed bool) {
	s := e.now()
	if freed || bytes.Equal(s.segment, s.shadow) {
		return
	}
	for i := range s.segment {
		if s.segment[i] != s.shadow[i] {
			e.wrong("byte %d of the segment of endpoint %d was written by no message that was handled", i, e.serial)
			return
		}
	}
}

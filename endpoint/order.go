package endpoint

import (
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// The order of requests
//
// The server handles the requests of one connection in the order of sending. Each carries its
// number, and an early one is held until its predecessors have arrived. The API promises no other
// order: replies run in the order of arrival.
//
// A message is also held while the last reply of its slot waits for its return, and while no send
// buffer is free for its answer. The server answers in two send buffers of the slot alternately.
// The provider may report late that an earlier answer, or the data of a bulk reply, has arrived. At
// most one message of a slot is held, so credits limit the number of held messages.

// errViolation ends a connection whose client exceeds its credits.
var errViolation = errors.New("the client sent a request number beyond its credits")

// arrives handles a message that the state of slot i permits, or its substitute. It holds the
// message until it is the message's turn and the server can answer it.
func (s *server) arrives(i int, p *provider.Packet) {
	slot := &s.slots[i]
	switch {
	case slot.held != nil:
		if p.Body != nil {
			s.stray(p)
		}
	case !s.mayTake(i, p):
		slot.held = p
		s.held++
	default:
		s.carryOut(i, p)
		if s.held > 0 {
			s.resume()
		}
	}
}

// mayTake reports whether it is p's turn, and the server can answer p.
func (s *server) mayTake(i int, p *provider.Packet) bool {
	h, slot := &p.Head, &s.slots[i]
	switch {
	case h.Kind == wire.KindSkip && h.Use == slot.use && slot.state != serverGranted && slot.state != serverAnnounced:
		return true // it has no answer
	case s.left() && h.Kind == wire.KindClear:
		return false
	case !s.left() && !s.ch.Idle(s.next(i)):
		return false
	case p.Body == nil || h.Kind == wire.KindRefuse:
		return true
	case h.Kind == wire.KindClear:
		return !s.ch.Writing(i) // the data of the slot's reply before this one
	}
	return int32(h.Use-s.due) <= 0 && slot.state != serverLost
}

// resume handles the held messages whose turn it is now.
func (s *server) resume() {
	for more := true; more && s.held > 0; {
		more = false
		for i := range s.slots {
			slot := &s.slots[i]
			if p := slot.held; p != nil && s.mayTake(i, p) {
				slot.held = nil
				s.held--
				s.carryOut(i, p)
				more = true
			}
		}
	}
}

// dropHeld counts held messages that are dropped because the connection has ended.
func (s *server) dropHeld() {
	for i := range s.slots {
		if p := s.slots[i].held; p != nil && (p.Head.Kind.Request() || p.Head.Kind == wire.KindRefuse) {
			s.ep.node.stats.Strays++
		}
		s.slots[i].held = nil
	}
	s.held = 0
}

// fresh reports whether a request, or a skip in its place, has a number whose turn is still to
// come. A number beyond the client's credits ends the connection.
func (s *server) fresh(h *wire.Header) bool {
	ahead := int32(h.Use - s.due)
	if ahead >= int32(len(s.slots)) {
		s.ep.node.stats.Violations++
		for i := range s.slots {
			s.slots[i].answer = 0
		}
		s.Broken(wire.ReasonUnreachable, errViolation)
	}
	return ahead >= 0
}

package endpoint

import (
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// The order of requests
//
// Requests of one connection are handled in the order in which they were sent: each carries
// its number, and one that comes early is held until those before it have come. That is
// the only order that the API promises: replies run in the order in which they come.
//
// A message is also held while the last reply of its slot waits to be given back, and while
// its answer would have nowhere to go. The server answers in
// two send buffers of the slot in turn, and the provider may hear late that an earlier
// answer has arrived, or that the data of a bulk reply have. At most one message of a slot
// is held, so credits bound what is.

// errViolation is why a connection ends whose client does not keep to its credits.
var errViolation = errors.New("the client has sent a request with a number that its credits do not allow")

// arrives takes in a message that the state of slot i allows, or what comes in place of
// one: at once, if it is its turn and it can be answered, and else when that is so.
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
		s.take(i, p)
		if s.held > 0 {
			s.resume()
		}
	}
}

// mayTake reports whether it is p's turn, and p can be answered.
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

// resume takes what is held and may be taken now.
func (s *server) resume() {
	for more := true; more && s.held > 0; {
		more = false
		for i := range s.slots {
			slot := &s.slots[i]
			if p := slot.held; p != nil && s.mayTake(i, p) {
				slot.held = nil
				s.held--
				s.take(i, p)
				more = true
			}
		}
	}
}

// dropHeld counts the messages whose turn never came, because the connection has ended.
func (s *server) dropHeld() {
	for i := range s.slots {
		if p := s.slots[i].held; p != nil && (p.Head.Kind.Request() || p.Head.Kind == wire.KindRefuse) {
			s.ep.node.stats.Strays++
		}
		s.slots[i].held = nil
	}
	s.held = 0
}

// fresh reports whether a request, or a skip in place of one, has a number whose turn is
// still to come. One beyond those that the client's credits allow ends the connection.
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

package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// The segment is the program's memory into which bulk messages place data, and from which gets
// read. Endpoint.grants counts the references to it that outlast one call under the node's mutex.
// SetSegment fails while there are any, because a program that has replaced a segment may unmap it:
//
//   - A window that a peer may write to, from the answer that names it until the
//     handler of the message has returned, or the message is refused.
//   - A long get, from its announcement until its data have left.
//   - A short bulk message, while its handler runs.

// Segment returns the endpoint's segment (AM_GetSeg).
func (ep *Endpoint) Segment() []byte {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	return ep.segment
}

// SetSegment sets the memory for bulk messages and gets, of any length (AM_SetSeg). The endpoint
// keeps it. After SetSegment has returned nil, nothing refers to the old segment. It fails with
// ErrInUse while a peer may write to the old segment, while the data of a long get are being sent
// from it, and while the handler of a bulk message runs.
func (ep *Endpoint) SetSegment(mem []byte) error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	if ep.grants > 0 {
		return provider.OpError("set segment", ErrInUse, "%d bulk messages or gets use the present one: poll until they have ended", ep.grants)
	}
	ep.segment = mem
	return nil
}

// part returns the part of the segment that a header names. inSegment has checked the header.
func (ep *Endpoint) part(h *wire.Header) []byte {
	return ep.segment[h.Offset:][:h.Length:h.Length]
}

// keep records that a get of the slot reads the segment, until letGo. There are at most two: one
// that was announced, and the previous one, whose data are being sent.
func (s *server) keep(slot *serverSlot) {
	slot.reads++
	s.ep.grants++
}

func (s *server) letGo(slot *serverSlot) {
	slot.reads--
	s.ep.grants--
}

// cleared sends the data of a bulk reply to the client's window. It checks a get again, because the
// tag may have changed since the announcement.
func (s *server) cleared(i int, to wire.Window) {
	slot := &s.slots[i]
	slot.state = serverIdle
	data := slot.source
	if slot.head.Kind == wire.KindGet {
		if reason := s.ep.acceptFetch(&slot.head); reason != 0 {
			s.letGo(slot)
			s.turnBack(i, reason)
			return
		}
		data, slot.fetching = s.ep.part(&slot.head), true
	}
	s.ch.Write(i, data, to, false)
}

// Wrote handles the arrival of a bulk reply's data at the client.
func (s *server) Wrote(i int) {
	if slot := &s.slots[i]; slot.fetching {
		slot.fetching = false
		s.letGo(slot)
	}
	s.Sent()
}

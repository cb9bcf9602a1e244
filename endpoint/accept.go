package endpoint

import "github.com/bobnet-go/bobnet/endpoint/internal/wire"

// What an endpoint accepts is decided here and nowhere else, when a message's
// turn has come to be handled, so that a tag or a handler set meanwhile counts.
// The order is AMUDP's (AM2 reference, section 6):
//
//  1. A returned message goes to the ReturnHandler, and nothing below applies.
//  2. The endpoint's tag is TagNone, or differs from the message's and is not
//     TagAll: ReasonBadTag.
//  3. The handler is unused: ReasonBadHandler. So is number 0, which AMUDP lets
//     through: it belongs to returned messages, whose handler has another type.
//  4. A short message with data, a medium or bulk one of more than was agreed,
//     a bulk one whose data and length differ, or of more than MaxBulk:
//     ReasonBadLength.
//  5. Bulk data and no segment: ReasonBadOffset. Offset and length beyond the
//     segment: ReasonBadLength, also when the length is 0.
//
// AMUDP's other steps are those of the connection: a slot beyond the credits,
// an answer to nothing and a second request in a slot are dropped and counted
// as strays; the source is known, or there would be no connection; VIs deliver
// in order and once. An endpoint that does not exist, ReasonBadEndpoint, and
// one with too many senders, ReasonCongestion, refuse the connection.

// admits reports whether an endpoint with tag t accepts a message with tag m.
func admits(t, m Tag) bool { return t != TagNone && (t == TagAll || t == m) }

// acceptRequest returns why a request is refused, or 0.
func (ep *Endpoint) acceptRequest(h *wire.Header, payload []byte, medium int) Reason {
	if !admits(ep.tag, h.Tag) {
		return ReasonBadTag
	}
	if h.Kind != wire.KindGet && ep.handlers[h.Handler] == nil { // a get has its handler at the sender
		return ReasonBadHandler
	}
	switch h.Kind {
	case wire.KindShort:
		return noData(payload)
	case wire.KindMedium:
		return mediumData(payload, medium)
	case wire.KindBulk:
		if len(payload) != int(h.Length) || len(payload) > medium {
			return ReasonBadLength
		}
	case wire.KindAnnounce:
		if len(payload) != 0 || h.Length == 0 {
			return ReasonBadLength
		}
	case wire.KindGet:
		if len(payload) != getSize {
			return ReasonBadLength
		}
	}
	return ep.inSegment(h)
}

// acceptReply returns why a reply is refused, or 0. A call's reply names no
// handler.
func (ep *Endpoint) acceptReply(h *wire.Header, payload []byte, call bool) Reason {
	if !admits(ep.tag, h.Tag) {
		return ReasonBadTag
	}
	if !call && ep.handlers[h.Handler] == nil {
		return ReasonBadHandler
	}
	switch h.Kind {
	case wire.KindReply:
		return noData(payload)
	case wire.KindReplyMedium:
		return mediumData(payload, maxMediumLimit)
	case wire.KindReplyBulk:
		if len(payload) != int(h.Length) {
			return ReasonBadLength
		}
	case wire.KindReplyAnnounce:
		if len(payload) != 0 || h.Length == 0 {
			return ReasonBadLength
		}
	}
	return ep.inSegment(h)
}

// acceptData decides once more when the data of a long bulk message has come,
// because the tag and the handler may have changed since it was granted. The
// segment has not: see segment.go. What is refused here has been
// written, but nobody is told that it has.
func (ep *Endpoint) acceptData(h *wire.Header, call bool) Reason {
	switch {
	case !admits(ep.tag, h.Tag):
		return ReasonBadTag
	case !call && ep.handlers[h.Handler] == nil:
		return ReasonBadHandler
	}
	return 0
}

// acceptFetch decides once more when the data of a long get are to go.
func (ep *Endpoint) acceptFetch(h *wire.Header) Reason {
	if !admits(ep.tag, h.Tag) {
		return ReasonBadTag
	}
	return ep.inSegment(h)
}

func noData(payload []byte) Reason {
	if len(payload) != 0 {
		return ReasonBadLength
	}
	return 0
}

func mediumData(payload []byte, medium int) Reason {
	if len(payload) > medium {
		return ReasonBadLength
	}
	return 0
}

// inSegment checks where bulk data is to go, or to come from. The comparison
// cannot wrap, whatever a peer sent.
func (ep *Endpoint) inSegment(h *wire.Header) Reason {
	size := uint64(len(ep.segment))
	switch {
	case h.Length > MaxBulk:
		return ReasonBadLength
	case size == 0 && (h.Length > 0 || h.Offset > 0):
		return ReasonBadOffset
	case h.Offset > size || uint64(h.Length) > size-h.Offset:
		return ReasonBadLength
	}
	return 0
}

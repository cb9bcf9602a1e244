package endpoint

import "github.com/bobnet-go/bobnet/endpoint/internal/wire"

// This file decides whether an endpoint accepts a message. It decides when the message is due to be
// handled, so a tag or handler that was set meanwhile applies. The order of the checks is AMUDP's
// (AM2 reference, section 6):
//
//   1. A returned message goes to the ReturnHandler, and the checks below do not apply.
//   2. The endpoint's tag is TagNone, or differs from the message's and is not TagAll:
//      ReasonBadTag.
//   3. The handler is unused: ReasonBadHandler. So is number 0, which AMUDP allows: it belongs to
//      returned messages, whose handler has another type.
//   4. A short message has data, a medium or bulk message is longer than agreed, a bulk message's
//      data and length differ, or it is longer than MaxBulk: ReasonBadLength.
//   5. A bulk message finds no segment: ReasonBadOffset. Offset and length are beyond the segment:
//      ReasonBadLength, even if the length is 0.
//
// The connection makes AMUDP's other checks. A slot beyond the credits, an unsolicited answer and a
// second request in a slot are dropped and counted as strays. The source is known, because there is
// a connection. VIs deliver in order and once. Connections to an endpoint that does not exist are
// refused with ReasonBadEndpoint, and to one with too many senders with ReasonCongestion.

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

// acceptReply returns the reason to refuse a reply, or 0. The reply of a call names no handler.
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

// acceptData checks again when the data of a long bulk message has arrived, because the tag and the
// handler may have changed since the grant. The segment cannot have changed: see segment.go. A
// refused message has already been written to the segment, without a notification.
func (ep *Endpoint) acceptData(h *wire.Header, call bool) Reason {
	switch {
	case !admits(ep.tag, h.Tag):
		return ReasonBadTag
	case !call && ep.handlers[h.Handler] == nil:
		return ReasonBadHandler
	}
	return 0
}

// acceptFetch checks again before the data of a long get is sent.
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

// inSegment checks the offset and length of bulk data. The comparison cannot overflow, whatever a
// peer sent.
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

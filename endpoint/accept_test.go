package endpoint

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// TestAcceptanceOrder: of several things that are wrong with a message the first
// in the documented order is the reason, for requests and for replies.
func TestAcceptanceOrder(t *testing.T) {
	const used, unused = 5, 6
	ep := &Endpoint{tag: 7}
	ep.handlers[used] = func(Token, []uint32, []byte) {}
	data := make([]byte, 10)
	for _, c := range []struct {
		name    string
		h       wire.Header
		payload []byte
		segment int
		want    Reason
	}{
		{"nothing", wire.Header{Tag: 7, Handler: used, Kind: wire.KindShort}, nil, 0, 0},
		{"tag, handler, length, no segment", wire.Header{Tag: 8, Handler: unused, Kind: wire.KindBulk, Length: 9, Offset: 1}, data, 0, ReasonBadTag},
		{"handler, length, no segment", wire.Header{Tag: 7, Handler: unused, Kind: wire.KindBulk, Length: 9, Offset: 1}, data, 0, ReasonBadHandler},
		{"length, no segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Length: 9, Offset: 1}, data, 0, ReasonBadLength},
		{"no segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Length: 10, Offset: 1}, data, 0, ReasonBadOffset},
		{"beyond the segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Length: 10, Offset: 11}, data, 20, ReasonBadLength},
		{"nothing beyond the segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Offset: 21}, nil, 20, ReasonBadLength},
		{"nothing at the end of the segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Offset: 20}, nil, 20, 0},
		{"nothing, no segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk}, nil, 0, 0},
		{"short with data", wire.Header{Tag: 7, Handler: used, Kind: wire.KindShort}, data, 20, ReasonBadLength},
		{"medium too long", wire.Header{Tag: 7, Handler: used, Kind: wire.KindMedium}, make([]byte, 101), 20, ReasonBadLength},
		{"bulk too long for its kind", wire.Header{Tag: 7, Handler: used, Kind: wire.KindBulk, Length: 101}, make([]byte, 101), 200, ReasonBadLength},
		{"announced with data", wire.Header{Tag: 7, Handler: used, Kind: wire.KindAnnounce, Length: 10}, data, 20, ReasonBadLength},
		{"announced nothing", wire.Header{Tag: 7, Handler: used, Kind: wire.KindAnnounce}, nil, 20, ReasonBadLength},
		{"announced, no segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindAnnounce, Length: 10}, nil, 0, ReasonBadOffset},
		{"announced, longer than any, no segment", wire.Header{Tag: 7, Handler: used, Kind: wire.KindAnnounce, Length: MaxBulk + 1}, nil, 0, ReasonBadLength},
		{"get, longer than any, no segment", wire.Header{Tag: 7, Kind: wire.KindGet, Length: MaxBulk + 1}, data[:8], 0, ReasonBadLength},
		{"get without a place", wire.Header{Tag: 7, Handler: unused, Kind: wire.KindGet, Length: 10}, data[:7], 20, ReasonBadLength},
		{"get, handler there unused", wire.Header{Tag: 7, Handler: unused, Kind: wire.KindGet, Length: 10}, data[:8], 20, 0},
		{"get, wrong tag", wire.Header{Tag: 8, Kind: wire.KindGet, Length: 10}, data[:8], 0, ReasonBadTag},
	} {
		ep.segment = make([]byte, c.segment)
		if got := ep.acceptRequest(&c.h, c.payload, 100); got != c.want {
			t.Errorf("request, %s: %v, want %v", c.name, got, c.want)
		}
		reply := c.h
		switch c.h.Kind {
		case wire.KindShort:
			reply.Kind = wire.KindReply
		case wire.KindBulk:
			reply.Kind = wire.KindReplyBulk
		case wire.KindAnnounce:
			reply.Kind = wire.KindReplyAnnounce
		default: // of what a reply may have, the limits differ
			continue
		}
		if len(c.payload) > 100 {
			continue
		}
		if got := ep.acceptReply(&reply, c.payload, false); got != c.want {
			t.Errorf("reply, %s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestTags: which messages an endpoint accepts.
func TestTags(t *testing.T) {
	for _, c := range []struct {
		tag, message Tag
		want         bool
	}{
		{TagNone, TagNone, false}, {TagNone, TagAll, false}, {TagNone, 9, false},
		{TagAll, TagNone, true}, {TagAll, 9, true}, {9, 9, true}, {9, 10, false}, {9, TagAll, false}, {9, TagNone, false},
		{1 << 63, 1 << 63, true}, {1 << 63, 0, false},
	} {
		if got := admits(c.tag, c.message); got != c.want {
			t.Errorf("tag %d admits %d: %v", c.tag, c.message, got)
		}
	}
}

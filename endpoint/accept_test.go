package endpoint

import "testing"

// TestAcceptanceOrder: of several things that are wrong with a message the first
// in the documented order is the reason, for requests and for replies.
func TestAcceptanceOrder(t *testing.T) {
	const used, unused = 5, 6
	ep := &Endpoint{tag: 7}
	ep.handlers[used] = func(Token, []uint32, []byte) {}
	data := make([]byte, 10)
	for _, c := range []struct {
		name    string
		h       header
		payload []byte
		segment int
		want    Reason
	}{
		{"nothing", header{tag: 7, handler: used, kind: kindShort}, nil, 0, 0},
		{"tag, handler, length, no segment", header{tag: 8, handler: unused, kind: kindBulk, length: 9, offset: 1}, data, 0, ReasonBadTag},
		{"handler, length, no segment", header{tag: 7, handler: unused, kind: kindBulk, length: 9, offset: 1}, data, 0, ReasonBadHandler},
		{"length, no segment", header{tag: 7, handler: used, kind: kindBulk, length: 9, offset: 1}, data, 0, ReasonBadLength},
		{"no segment", header{tag: 7, handler: used, kind: kindBulk, length: 10, offset: 1}, data, 0, ReasonBadOffset},
		{"beyond the segment", header{tag: 7, handler: used, kind: kindBulk, length: 10, offset: 11}, data, 20, ReasonBadLength},
		{"nothing beyond the segment", header{tag: 7, handler: used, kind: kindBulk, offset: 21}, nil, 20, ReasonBadLength},
		{"nothing at the end of the segment", header{tag: 7, handler: used, kind: kindBulk, offset: 20}, nil, 20, 0},
		{"nothing, no segment", header{tag: 7, handler: used, kind: kindBulk}, nil, 0, 0},
		{"short with data", header{tag: 7, handler: used, kind: kindShort}, data, 20, ReasonBadLength},
		{"medium too long", header{tag: 7, handler: used, kind: kindMedium}, make([]byte, 101), 20, ReasonBadLength},
		{"bulk too long for its kind", header{tag: 7, handler: used, kind: kindBulk, length: 101}, make([]byte, 101), 200, ReasonBadLength},
		{"announced with data", header{tag: 7, handler: used, kind: kindAnnounce, length: 10}, data, 20, ReasonBadLength},
		{"announced nothing", header{tag: 7, handler: used, kind: kindAnnounce}, nil, 20, ReasonBadLength},
		{"announced, no segment", header{tag: 7, handler: used, kind: kindAnnounce, length: 10}, nil, 0, ReasonBadOffset},
		{"announced, longer than any, no segment", header{tag: 7, handler: used, kind: kindAnnounce, length: MaxBulk + 1}, nil, 0, ReasonBadLength},
		{"get, longer than any, no segment", header{tag: 7, kind: kindGet, length: MaxBulk + 1}, data[:8], 0, ReasonBadLength},
		{"get without a place", header{tag: 7, handler: unused, kind: kindGet, length: 10}, data[:7], 20, ReasonBadLength},
		{"get, handler there unused", header{tag: 7, handler: unused, kind: kindGet, length: 10}, data[:8], 20, 0},
		{"get, wrong tag", header{tag: 8, kind: kindGet, length: 10}, data[:8], 0, ReasonBadTag},
	} {
		ep.segment = make([]byte, c.segment)
		if got := ep.acceptRequest(&c.h, c.payload, 100); got != c.want {
			t.Errorf("request, %s: %v, want %v", c.name, got, c.want)
		}
		reply := c.h
		switch c.h.kind {
		case kindShort:
			reply.kind = kindReply
		case kindBulk:
			reply.kind = kindReplyBulk
		case kindAnnounce:
			reply.kind = kindReplyAnnounce
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
		if got := c.tag.admits(c.message); got != c.want {
			t.Errorf("tag %d admits %d: %v", c.tag, c.message, got)
		}
	}
}

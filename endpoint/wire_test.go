package endpoint

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// drawMessage draws a message and what its receiver ought to find in it.
func drawMessage(t *rapid.T) (h header, body []byte) {
	h = header{kind: kind(rapid.IntRange(1, int(kindEnd)-1).Draw(t, "kind")), handler: rapid.Byte().Draw(t, "handler"),
		args: uint8(rapid.IntRange(0, MaxShort).Draw(t, "args")), slot: rapid.Uint16().Draw(t, "slot"), use: rapid.Uint32().Draw(t, "use")}
	switch {
	case h.kind.request():
		h.underway = rapid.Byte().Draw(t, "under way")
	case h.kind == kindReturn || h.kind == kindRefuse:
		h.reason = Reason(rapid.IntRange(1, int(reasonEnd)-1).Draw(t, "reason"))
	}
	if h.kind.tagged() {
		h.tag, h.replyTag = Tag(rapid.IntRange(0, 2).Draw(t, "tag")), Tag(rapid.IntRange(0, 1).Draw(t, "reply tag"))
	}
	if h.kind.located() {
		h.length, h.offset = rapid.Uint32().Draw(t, "length"), rapid.Uint64().Draw(t, "offset")
	}
	return h, rapid.SliceOfN(rapid.Byte(), int(h.args)*argSize, int(h.args)*argSize+50).Draw(t, "body")
}

// TestMessagesJoined: what shares a VI message comes out of it as it went in,
// whichever tags were left away.
func TestMessagesJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heads []header
		var bodies [][]byte
		envelope := make([]byte, 40*200)
		var tags *[tagsSize]byte
		at, end, alone := 0, 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "messages") {
			h, body := drawMessage(t)
			m := make([]byte, headerSize+len(body))
			n := h.put(m)
			m = m[:n+copy(m[n:], body)]
			heads, bodies = append(heads, h), append(bodies, body)
			if at > 0 {
				binary.LittleEndian.PutUint16(envelope[alone+lengthAt:], uint16(end-alone))
			}
			alone = at
			end = at + join(envelope[at:], m, &tags)
			at += rounded(end - at)
		}
		var last lastTags
		rest := envelope[:end]
		for i, want := range heads {
			m, next, ok := splitNext(rest, 1000)
			var h header
			if !ok {
				t.Fatalf("message %d of %d is not found", i, len(heads))
			}
			body, ok := h.parse(m, &last)
			if !ok || h != want || !bytes.Equal(body, bodies[i]) {
				t.Fatalf("message %d came as %+v, %x, %v; want %+v, %x", i, h, body, ok, want, bodies[i])
			}
			rest = next
		}
		if len(rest) > 0 {
			t.Fatalf("%d bytes are left", len(rest))
		}
	})
}

// TestTagsLeftAway: messages of a stream carry their tags once, and those of no
// message before them are none of this package's.
func TestTagsLeftAway(t *testing.T) {
	h := header{kind: kindShort, tag: 7, replyTag: 9}
	m, b := make([]byte, headerSize), make([]byte, headerSize)
	m = m[:h.put(m)]
	var tags *[tagsSize]byte
	if n := join(b, m, &tags); n != baseSize+tagsSize {
		t.Errorf("the first message has %d bytes", n)
	}
	n := join(b, m, &tags)
	if n != baseSize {
		t.Errorf("the second message has %d bytes", n)
	}
	for _, last := range []*lastTags{nil, {}} {
		if _, ok := h.parse(b[:n], last); ok {
			t.Errorf("accepted with the tags of a message that there was not (%v)", last)
		}
	}
	b[0] = byte(kindDone) | sameTags
	if _, ok := h.parse(b[:n], &lastTags{known: true}); ok {
		t.Error("accepted a message with tags that has none")
	}
}

// FuzzMessages: any bytes are taken apart without reading beyond them, into
// messages that say the same when they are put together again.
func FuzzMessages(f *testing.F) {
	h := header{kind: kindShort, args: 1, tag: 7}
	m := make([]byte, headerSize)
	m = m[:putArgs(m, h.put(m), []uint32{5})]
	f.Add(Join(bytes.Clone(m), m))
	apart := make([]byte, 300, 400)
	copy(apart, m)
	binary.LittleEndian.PutUint16(apart[lengthAt:], uint16(len(m)))
	apart[0] |= spaced
	f.Add(append(apart, m...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var last lastTags
		for len(b) > 0 {
			m, rest, ok := splitNext(b, 300)
			if !ok {
				return
			}
			b = rest
			var h, again header
			body, ok := h.parse(m, &last)
			if !ok {
				continue
			}
			h.payload(body)
			var args [MaxShort]uint32
			h.arguments(body, &args)
			put := make([]byte, headerSize)
			if _, ok := again.parse(append(put[:h.put(put)], body...), nil); !ok || again != h {
				t.Fatalf("%+v was put together as %+v", h, again)
			}
		}
	})
}

package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// drawMessage draws a message and what its receiver ought to find in it.
func drawMessage(t *rapid.T) (h Header, body []byte) {
	h = Header{Kind: Kind(rapid.IntRange(1, int(KindEnd)-1).Draw(t, "kind")), Handler: rapid.Byte().Draw(t, "handler"),
		Args: uint8(rapid.IntRange(0, MaxArgs).Draw(t, "args")), Slot: rapid.Uint16().Draw(t, "slot"), Use: rapid.Uint32().Draw(t, "use")}
	switch {
	case h.Kind.Request():
		h.Underway = rapid.Byte().Draw(t, "under way")
	case h.Kind == KindReturn || h.Kind == KindRefuse:
		h.Reason = Reason(rapid.IntRange(1, int(ReasonEnd)-1).Draw(t, "reason"))
	}
	if h.Kind.Tagged() {
		h.Tag, h.ReplyTag = Tag(rapid.IntRange(0, 2).Draw(t, "tag")), Tag(rapid.IntRange(0, 1).Draw(t, "reply tag"))
	}
	if h.Kind.located() {
		h.Length, h.Offset = rapid.Uint32().Draw(t, "length"), rapid.Uint64().Draw(t, "offset")
	}
	return h, rapid.SliceOfN(rapid.Byte(), int(h.Args)*argSize, int(h.Args)*argSize+50).Draw(t, "body")
}

// TestMessagesJoined: what shares a VI message comes out of it as it went in,
// whichever tags were left away.
func TestMessagesJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heads []Header
		var bodies [][]byte
		envelope := make([]byte, 40*200)
		var tags *[TagsSize]byte
		at, end, alone := 0, 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "messages") {
			h, body := drawMessage(t)
			m := make([]byte, headerSize+len(body))
			n := h.Put(m)
			m = m[:n+copy(m[n:], body)]
			heads, bodies = append(heads, h), append(bodies, body)
			if at > 0 {
				binary.LittleEndian.PutUint16(envelope[alone+LengthAt:], uint16(end-alone))
			}
			alone = at
			end = at + Join(envelope[at:], m, &tags)
			at += Rounded(end - at)
		}
		var last LastTags
		rest := envelope[:end]
		for i, want := range heads {
			m, next, ok := SplitNext(rest, 1000)
			var h Header
			if !ok {
				t.Fatalf("message %d of %d is not found", i, len(heads))
			}
			body, ok := h.Parse(m, &last)
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
	h := Header{Kind: KindShort, Tag: 7, ReplyTag: 9}
	m, b := make([]byte, headerSize), make([]byte, headerSize)
	m = m[:h.Put(m)]
	var tags *[TagsSize]byte
	if n := Join(b, m, &tags); n != BaseSize+TagsSize {
		t.Errorf("the first message has %d bytes", n)
	}
	n := Join(b, m, &tags)
	if n != BaseSize {
		t.Errorf("the second message has %d bytes", n)
	}
	for _, last := range []*LastTags{nil, {}} {
		if _, ok := h.Parse(b[:n], last); ok {
			t.Errorf("accepted with the tags of a message that there was not (%v)", last)
		}
	}
	b[0] = byte(KindDone) | sameTags
	if _, ok := h.Parse(b[:n], &LastTags{known: true}); ok {
		t.Error("accepted a message with tags that has none")
	}
}

// FuzzMessages: any bytes are taken apart without reading beyond them, into
// messages that say the same when they are put together again.
func FuzzMessages(f *testing.F) {
	h := Header{Kind: KindShort, Args: 1, Tag: 7}
	m := make([]byte, headerSize)
	m = m[:PutArgs(m, h.Put(m), []uint32{5})]
	near := make([]byte, Rounded(len(m)), 400)
	copy(near, m)
	binary.LittleEndian.PutUint16(near[LengthAt:], uint16(len(m)))
	f.Add(append(near, m...))
	apart := make([]byte, 300, 400)
	copy(apart, m)
	binary.LittleEndian.PutUint16(apart[LengthAt:], uint16(len(m)))
	apart[0] |= Spaced
	f.Add(append(apart, m...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var last LastTags
		for len(b) > 0 {
			m, rest, ok := SplitNext(b, 300)
			if !ok {
				return
			}
			b = rest
			var h, again Header
			body, ok := h.Parse(m, &last)
			if !ok {
				continue
			}
			h.Payload(body)
			var args [MaxArgs]uint32
			h.Arguments(body, &args)
			put := make([]byte, headerSize)
			if _, ok := again.Parse(append(put[:h.Put(put)], body...), nil); !ok || again != h {
				t.Fatalf("%+v was put together as %+v", h, again)
			}
		}
	})
}

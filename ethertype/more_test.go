package ethertype

import (
	"bytes"
	"testing"
)

// TestMore: frames that follow one another are what each would be alone.
func TestMore(t *testing.T) {
	for _, flags := range []Flags{0, FlagWholeCRC} {
		var frame []byte
		for i := range 3 {
			h := sample
			h.Offset, h.Seq, h.Flags = 0, Seq(i), flags
			at := len(frame)
			frame = append(frame, encode(h, []byte("abc"))...)
			if i < 2 {
				SetMore(frame[at:])
			}
		}
		frame = append(frame, make([]byte, 9)...) // Ethernet's padding
		for i := range 3 {
			var h Header
			payload, err := h.Parse(frame)
			if err != nil || h.Seq != Seq(i) || !bytes.Equal(payload, []byte("abc")) || (h.Flags == flags|FlagMore) != (i < 2) {
				t.Fatalf("frame %d: %v, %q, %v", i, &h, payload, err)
			}
			if frame = h.Next(frame); (frame != nil) != (i < 2) {
				t.Fatalf("%d bytes follow frame %d", len(frame), i)
			}
		}
	}
}

// TestNextMissing: nothing follows a frame whose end is not at hand, and one that has no room for
// what it says to follow is refused.
func TestNextMissing(t *testing.T) {
	h := sample
	h.Offset, h.Flags = 0, FlagMore
	frame := encode(h, []byte("abc"))
	payload, err := h.ParseBegin(frame[:len(frame)-1], 1+HeaderSize)
	if next := h.Next(frame[:len(frame)-1]); err != nil || len(payload) != 2 || next != nil {
		t.Errorf("%d bytes, %v, and %d bytes follow", len(payload), err, len(next))
	}
	if _, err := h.Parse(append(frame, make([]byte, HeaderSize-1)...)); err != ErrShort {
		t.Errorf("a header less one byte follows: %v", err)
	}
}

// TestToOne says which frames go to one program.
func TestToOne(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *Header)
		want   bool
	}{
		"same":            {func(*Header) {}, true},
		"another port":    {func(h *Header) { h.DstPort ^= 1; h.SrcPort++ }, true},
		"another block":   {func(h *Header) { h.DstPort ^= PortBlock }, false},
		"another station": {func(h *Header) { h.Dst[5]++ }, false},
	} {
		h := sample
		if c.change(&h); ToOne(encode(h, nil), encode(sample, nil)) != c.want {
			t.Errorf("%s: %v, want %v", name, !c.want, c.want)
		}
	}
}

// TestBeside says which frames may follow another.
func TestBeside(t *testing.T) {
	first := sample
	for name, c := range map[string]struct {
		change func(h *Header)
		want   bool
	}{
		"same":             {func(*Header) {}, true},
		"another port":     {func(h *Header) { h.SrcPort ^= 1; h.DstPort++ }, true},
		"ack":              {func(h *Header) { h.Kind = KindAck }, true},
		"another block":    {func(h *Header) { h.SrcPort ^= PortBlock }, false},
		"another source":   {func(h *Header) { h.Src[5]++ }, false},
		"another station":  {func(h *Header) { h.Dst[5]++ }, false},
		"another protocol": {func(h *Header) { h.Type++ }, false},
		"disconnect":       {func(h *Header) { h.Kind = KindDisconnect }, false},
		"query":            {func(h *Header) { h.Kind = KindQuery }, false},
	} {
		h := sample
		if c.change(&h); h.Beside(&first) != c.want {
			t.Errorf("%s: %v, want %v", name, !c.want, c.want)
		}
	}
}

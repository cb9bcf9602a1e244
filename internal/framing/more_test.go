package framing

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestMore: frames that follow one another are what each would be alone.
func TestMore(t *testing.T) {
	for _, flags := range []ethertype.Flags{0, ethertype.FlagWholeCRC} {
		var frame []byte
		for i := range 3 {
			h := sample
			h.Offset, h.Seq, h.Flags = 0, ethertype.Seq(i), flags
			at := len(frame)
			frame = append(frame, encode(h, []byte("abc"))...)
			if i < 2 {
				SetMore(frame[at:])
			}
		}
		frame = append(frame, make([]byte, 9)...) // Ethernet's padding
		for i := range 3 {
			var h ethertype.Header
			payload, err := h.Parse(frame)
			if err != nil || h.Seq != ethertype.Seq(i) || !bytes.Equal(payload, []byte("abc")) || (h.Flags == flags|ethertype.FlagMore) != (i < 2) {
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
	h.Offset, h.Flags = 0, ethertype.FlagMore
	frame := encode(h, []byte("abc"))
	payload, err := h.ParseBegin(frame[:len(frame)-1], 1+ethertype.HeaderSize)
	if next := h.Next(frame[:len(frame)-1]); err != nil || len(payload) != 2 || next != nil {
		t.Errorf("%d bytes, %v, and %d bytes follow", len(payload), err, len(next))
	}
	if _, err := h.Parse(append(frame, make([]byte, ethertype.HeaderSize-1)...)); err != ethertype.ErrShort {
		t.Errorf("a header less one byte follows: %v", err)
	}
}

// TestToOne says which frames go to one program.
func TestToOne(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *ethertype.Header)
		want   bool
	}{
		"same":            {func(*ethertype.Header) {}, true},
		"another port":    {func(h *ethertype.Header) { h.DstPort ^= 1; h.SrcPort++ }, true},
		"another block":   {func(h *ethertype.Header) { h.DstPort ^= PortBlock }, false},
		"another station": {func(h *ethertype.Header) { h.Dst[5]++ }, false},
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
		change func(h *ethertype.Header)
		want   bool
	}{
		"same":             {func(*ethertype.Header) {}, true},
		"another port":     {func(h *ethertype.Header) { h.SrcPort ^= 1; h.DstPort++ }, true},
		"ack":              {func(h *ethertype.Header) { h.Kind = ethertype.KindAck }, true},
		"another block":    {func(h *ethertype.Header) { h.SrcPort ^= PortBlock }, false},
		"another source":   {func(h *ethertype.Header) { h.Src[5]++ }, false},
		"another station":  {func(h *ethertype.Header) { h.Dst[5]++ }, false},
		"another protocol": {func(h *ethertype.Header) { h.Type++ }, false},
		"disconnect":       {func(h *ethertype.Header) { h.Kind = ethertype.KindDisconnect }, false},
		"query":            {func(h *ethertype.Header) { h.Kind = ethertype.KindQuery }, false},
	} {
		h := sample
		if c.change(&h); Beside(&h, &first) != c.want {
			t.Errorf("%s: %v, want %v", name, !c.want, c.want)
		}
	}
}

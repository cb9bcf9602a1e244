package framing

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestSealedKinds: a sealed frame is none that a station without a key, or of the fabric,
// takes; its kinds have names and lengths.
func TestSealedKinds(t *testing.T) {
	names := map[string]bool{}
	for n := range 256 {
		frame := make([]byte, 200)
		o := Outer{Dst: ethertype.MAC{2, 1}, Src: ethertype.MAC{2, 2}, Type: ethertype.Default, Kind: uint8(n), DstPort: 7, SrcPort: 9}
		o.Put(frame)
		kind, sealed := IsSealed(frame)
		if sealed != (kind.Least() > 0) {
			t.Errorf("kind %d: sealed %v, of %d bytes at least", n, sealed, kind.Least())
		}
		if !sealed {
			continue
		}
		var h ethertype.Header
		if _, err := h.Parse(frame); err != ethertype.ErrKind || isFabric(frame) {
			t.Errorf("%v is a kind of a Header (%v), or of the fabric", kind, err)
		}
		if names[kind.String()] || strings.HasPrefix(kind.String(), "kind-") {
			t.Errorf("kind %d is called %v", n, kind)
		}
		names[kind.String()] = true
		if text := Dump(frame); !strings.Contains(text, "02:02:00:00:00:00/9 > 02:01:00:00:00:00/7 "+kind.String()+" ") || strings.Contains(text, "malformed") {
			t.Errorf("described as %q", text)
		}
		if text := Dump(frame[:kind.Least()-1]); !strings.Contains(text, "malformed") {
			t.Errorf("too short, and described as %q", text)
		}
		frame[OffsetVersion]++
		if _, sealed := IsSealed(frame); sealed {
			t.Errorf("%v of another version is taken", kind)
		}
	}
	if len(names) != 9 {
		t.Errorf("%d kinds", len(names))
	}
	if _, sealed := IsSealed(make([]byte, OuterSize-1)); sealed {
		t.Error("too short for an outer layout, and taken")
	}
}

// TestPutSealed: the outer layout is the frame's own, but for kind and flags.
func TestPutSealed(t *testing.T) {
	frame := make([]byte, ethertype.HeaderSize)
	h := ethertype.Header{Dst: ethertype.MAC{2, 1}, Src: ethertype.MAC{2, 2}, Type: 0x88b6, Kind: ethertype.KindData, Flags: ethertype.FlagLast, DstPort: 7, SrcPort: 9}
	h.Put(frame)
	b := make([]byte, SealedBody)
	PutSealed(b, frame, KindSealed, 0x01020304, 0x05060708090a0b0c)
	o, ok := ParseOuter(b)
	want := Outer{Dst: h.Dst, Src: h.Src, Type: h.Type, Kind: uint8(KindSealed), DstPort: 7, SrcPort: 9}
	if !ok || o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if session, counter := ParseSealed(b); session != 0x01020304 || counter != 0x05060708090a0b0c || b[SealedSession] != 1 || b[SealedCounter] != 5 {
		t.Errorf("session %x, counter %x", session, counter)
	}
	if n := testing.AllocsPerRun(10, func() {
		PutSealed(b, frame, KindSealedLong, 1, 2)
		ParseSealed(b)
		IsSealed(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

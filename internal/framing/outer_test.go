package framing

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestOuterIsHeaders: a frame of the header's begins as the outer layout says.
func TestOuterIsHeaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := ethertype.Header{
			Dst: ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, "dst")), Src: ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, "src")),
			Type: ethertype.Default, Kind: ethertype.KindData, Flags: ethertype.Flags(rapid.Uint16Range(0, 0x3ff).Draw(rt, "flags")),
			DstPort: rapid.Uint16().Draw(rt, "to"), SrcPort: rapid.Uint16().Draw(rt, "from"),
		}
		var frame [ethertype.HeaderSize]byte
		h.Put(frame[:])
		o, ok := ParseOuter(frame[:])
		want := Outer{Dst: h.Dst, Src: h.Src, Type: h.Type, Kind: uint8(h.Kind), Flags: h.Flags, DstPort: h.DstPort, SrcPort: h.SrcPort}
		if !ok || o != want {
			rt.Fatalf("the frame begins with %+v, %v; want %+v", o, ok, want)
		}
		var again [OuterSize]byte
		if o.Put(again[:]); again != [OuterSize]byte(frame[:]) {
			rt.Fatalf("it was % x and became % x", frame[:OuterSize], again)
		}
		port, ok := Concerns(frame[:], ethertype.Default, h.Dst)
		if !ok || port != h.DstPort {
			rt.Fatalf("it does not concern the station that it goes to: %d, %v", port, ok)
		}
	})
}

func TestOuterRefuses(t *testing.T) {
	me, other := ethertype.MAC{2, 1}, ethertype.MAC{2, 2}
	o := Outer{Dst: me, Src: other, Type: ethertype.Default, DstPort: 7}
	frame := make([]byte, OuterSize)
	o.Put(frame)
	if _, ok := ParseOuter(frame[:OuterSize-1]); ok {
		t.Error("a short frame is parsed")
	}
	if _, ok := Concerns(frame, ethertype.Default+1, me); ok {
		t.Error("another EtherType concerns the station")
	}
	if _, ok := Concerns(frame, ethertype.Default, other); ok {
		t.Error("a frame to another station concerns this one")
	}
	frame[OffsetDst] |= 1
	if _, ok := Concerns(frame, ethertype.Default, other); !ok {
		t.Error("a frame to a group does not")
	}
	frame[OffsetVersion]++
	if _, ok := Concerns(frame, ethertype.Default, other); ok {
		t.Error("another version does")
	}
	if _, ok := ParseOuter(frame); ok {
		t.Error("another version is parsed")
	}
}

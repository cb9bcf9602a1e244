package framing

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/mdlayher/ethernet"
	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestCRC8 compares with the check values of catalogues of CRCs, and with the
// definition: division by the polynomial, bit by bit.
func TestCRC8(t *testing.T) {
	if got := UpdateCRC8(0, []byte("123456789")); got != 0xf4 {
		t.Errorf("CRC-8 of 123456789 is %#x, want 0xf4", got)
	}
	rng := rand.New(rand.NewPCG(1, 8))
	sizes := []int{126, 127, 128, 253, 254, 255, 1015, 1016, 1017, 2031, 2032, 2033, 2158, 2159, 9000, 65_535}
	for n := range 200 {
		sizes = append(sizes, n, rng.IntN(5000))
	}
	for _, n := range sizes {
		data, cut := random(rng, n), rng.IntN(n+1)
		var want uint8
		for _, b := range data {
			want = crc8Times(want^b, 8)
		}
		got := UpdateCRC8(0, data)
		if got != want {
			t.Errorf("CRC-8 of %d bytes is %#x, want %#x", n, got, want)
		}
		if got := UpdateCRC8(UpdateCRC8(0, data[:cut]), data[cut:]); got != want {
			t.Errorf("CRC-8 of %d bytes and %d more is %#x, want %#x", cut, n-cut, got, want)
		}
		if rest := UpdateCRC8(0, append(data, got)); rest != 0 {
			t.Errorf("CRC-8 of a packet with its CRC is %#x", rest)
		}
	}
}

// TestStripCRC8: a switch that takes a byte off finds the CRC of the rest without
// reading it, and an error stays one.
func TestStripCRC8(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 8))
	for n := 1; n < 400; n++ {
		data, wrong := random(rng, n), uint8(rng.Uint32())
		got := StripCRC8(UpdateCRC8(0, data)^wrong, data[0], n-1)
		if want := UpdateCRC8(0, data[1:]) ^ wrong; got != want {
			t.Fatalf("%d bytes without the first: CRC-8 %#x, want %#x", n, got, want)
		}
	}
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestTurns(t *testing.T) {
	for turn := -MaxTurn; turn <= MaxTurn; turn++ {
		if got, ok := Turn(PutTurn(turn)); got != turn || !ok {
			t.Errorf("turn %d became %d, %v", turn, got, ok)
		}
	}
	if _, ok := Turn(MaxFabricType >> 8); ok {
		t.Error("the first byte of a type is taken for a turn")
	}
}

func drawFabric(rt *rapid.T) FabricHeader {
	h := FabricHeader{
		Dst: ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, "dst")), Src: ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, "src")),
		Type: ethertype.Fabric, Kind: FabricPacket,
		DstPort: rapid.Uint16().Draw(rt, "to"), SrcPort: rapid.Uint16().Draw(rt, "from"), Tag: rapid.Uint32().Draw(rt, "tag"),
		Seq: ethertype.Seq(rapid.Uint32().Draw(rt, "seq")), Credit: ethertype.Seq(rapid.Uint32().Draw(rt, "credit")), Packet: ethertype.Seq(rapid.Uint32().Draw(rt, "packet")),
		Offset: rapid.Uint32Range(0, 1<<31).Draw(rt, "offset"), Size: rapid.Uint16Range(1, 2000).Draw(rt, "size"),
	}
	h.Length = h.Offset + uint32(h.Size) + rapid.Uint32Range(FabricLeast, 1<<20).Draw(rt, "more")
	return h
}

// TestFabricRoundTrip: what is put is what is parsed, and its first bytes are what
// links filter by.
func TestFabricRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawFabric(rt)
		frame := make([]byte, ethertype.HeaderSize+int(h.Size)+7) // padded
		h.Put(frame)
		var got FabricHeader
		part, err := got.Parse(frame)
		if err != nil || got != h || len(part) != int(h.Size) {
			rt.Fatalf("%+v became %+v, %d bytes, %v", h, got, len(part), err)
		}
		o, ok := ParseOuter(frame)
		if want := (Outer{Dst: h.Dst, Src: h.Src, Type: ethertype.Fabric, Kind: uint8(FabricPacket), DstPort: h.DstPort, SrcPort: h.SrcPort}); !ok || o != want {
			rt.Fatalf("it begins with %+v, %v", o, ok)
		}
		if port, ok := Concerns(frame, ethertype.Fabric, h.Dst); !ok || port != h.DstPort {
			rt.Fatal("it does not concern the station that it goes to")
		}
		if !isFabric(frame) {
			rt.Fatal("it is not said to be of the fabric")
		}
		if _, err := new(ethertype.Header).Parse(frame); !errors.Is(err, ethertype.ErrKind) {
			rt.Fatalf("a Header is made of it: %v", err)
		}
	})
}

// fabricFrame has a packet of two turns, in one frame.
func fabricFrame(change func(h *FabricHeader, packet []byte)) []byte {
	packet := append([]byte{PutTurn(1), PutTurn(-2), 0, 3}, "payload"...)
	packet = append(packet, UpdateCRC8(0, packet))
	h := FabricHeader{Dst: bob.MAC, Src: alice.MAC, Type: ethertype.Fabric, Kind: FabricPacket, DstPort: bob.Port, SrcPort: alice.Port,
		Seq: 9, Credit: 20, Packet: 7, Length: uint32(len(packet)), Size: uint16(len(packet))}
	change(&h, packet)
	frame := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(packet))
	h.Put(frame)
	return append(frame, packet[:min(int(h.Size), len(packet))]...)
}

func TestFabricRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(h *FabricHeader, packet []byte)
		spoil  func(frame []byte) []byte
		want   error
	}{
		"short":             {spoil: func(f []byte) []byte { return f[:ethertype.HeaderSize-1] }, want: ethertype.ErrShort},
		"cut":               {spoil: func(f []byte) []byte { return f[:len(f)-1] }, want: ethertype.ErrShort},
		"version":           {spoil: func(f []byte) []byte { f[OffsetVersion]++; return f }, want: ethertype.ErrVersion},
		"kind":              {change: func(h *FabricHeader, _ []byte) { h.Kind = fabricEnd }, want: ethertype.ErrKind},
		"kind of a Header":  {change: func(h *FabricHeader, _ []byte) { h.Kind = FabricKind(ethertype.KindData) }, want: ethertype.ErrKind},
		"flag":              {spoil: func(f []byte) []byte { f[OffsetFlags]++; return f }, want: ErrReserved},
		"kept":              {spoil: func(f []byte) []byte { f[fabricZero+9]++; return f }, want: ErrReserved},
		"crc":               {spoil: func(f []byte) []byte { f[fabricSeq]++; return f }, want: ethertype.ErrCRC},
		"beyond":            {change: func(h *FabricHeader, _ []byte) { h.Offset = 1 }, want: ethertype.ErrRange},
		"beyond 32 bits":    {change: func(h *FabricHeader, _ []byte) { h.Offset = 1<<32 - 1 }, want: ethertype.ErrRange},
		"no byte":           {change: func(h *FabricHeader, _ []byte) { h.Size = 0 }, want: ethertype.ErrRange},
		"no packet":         {change: func(h *FabricHeader, _ []byte) { h.Size, h.Length = 2, 2 }, want: ethertype.ErrRange},
		"break at the end":  {change: func(h *FabricHeader, _ []byte) { h.Kind, h.Size, h.Offset = FabricBreak, 0, h.Length }, want: ethertype.ErrRange},
		"credit with more":  {change: func(h *FabricHeader, _ []byte) { h.Kind = FabricCredit }, want: ethertype.ErrRange},
		"credit alone":      {change: func(h *FabricHeader, _ []byte) { h.Kind, h.Size = FabricCredit, 0 }},
		"break":             {change: func(h *FabricHeader, _ []byte) { h.Kind, h.Size, h.Offset = FabricBreak, 0, 3 }},
		"another EtherType": {change: func(h *FabricHeader, _ []byte) { h.Type = ethernet.EtherType(0x1234) }},
	} {
		if test.change == nil {
			test.change = func(*FabricHeader, []byte) {}
		}
		frame := fabricFrame(test.change)
		if test.spoil != nil {
			frame = test.spoil(frame)
		}
		if _, err := new(FabricHeader).Parse(frame); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestDumpFabric(t *testing.T) {
	for _, test := range []struct {
		frame []byte
		want  string
	}{
		{fabricFrame(func(*FabricHeader, []byte) {}), "fabric packet 7 bytes 0..11 of 12 seq 9 credit 20 route +1 -2 type 3 payload 7"},
		{fabricFrame(func(h *FabricHeader, _ []byte) { h.Offset, h.Size, h.Tag = 2, 10, 0x1f }), "fabric packet 7 bytes 2..11 of 12 seq 9 credit 20 tag 0x1f"},
		{fabricFrame(func(h *FabricHeader, _ []byte) { h.Length = 4000 }), "fabric packet 7 bytes 0..11 of 4000 seq 9 credit 20 route +1 -2 type 3 payload 3995"},
		{fabricFrame(func(_ *FabricHeader, p []byte) { p[5]++ }), "fabric packet 7 bytes 0..11 of 12 seq 9 credit 20 route +1 -2 type 3 payload 7 CRC-8 does not match"},
		{fabricFrame(func(h *FabricHeader, _ []byte) { h.Size = 3 }), "fabric packet 7 bytes 0..2 of 12 seq 9 credit 20 route +1 -2 ends before its type (12 bytes)"},
		{fabricFrame(func(h *FabricHeader, _ []byte) {
			h.Kind, h.Size, h.Offset, h.Type = FabricBreak, 0, 5, ethertype.Default
		}),
			"fabric break type 0x88b5 7 at 5 of 12 seq 9 credit 20"},
		{fabricFrame(func(h *FabricHeader, _ []byte) { h.Kind, h.Size = FabricHello, 0 }), "fabric hello longest 12 credit 20"},
		{fabricFrame(func(h *FabricHeader, _ []byte) { h.Offset = 5 }),
			"fabric packet 7 bytes 5..16 of 12 seq 9 credit 20 malformed: fragment lies outside its message (version 1, 74 bytes)"},
	} {
		if got := Dump(test.frame); got != between+test.want {
			t.Errorf("got  %s\nwant %s%s", got, between, test.want)
		}
	}
	short := fabricFrame(func(*FabricHeader, []byte) {})[:30]
	if got, want := Dump(short), "02:00:00:00:00:01 > 02:00:00:00:00:02 fabric malformed: frame is shorter than its header or size field (30 bytes)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := FabricKind(77).String(); got != "kind-77" {
		t.Errorf("kind 77 is %q", got)
	}
}

func TestFabricAllocatesNothing(t *testing.T) {
	h := FabricHeader{Kind: FabricPacket, Size: 100, Length: 100}
	frame := make([]byte, ethertype.HeaderSize+100)
	if n := testing.AllocsPerRun(100, func() {
		h.Put(frame)
		if _, err := h.Parse(frame); err != nil {
			t.Fatal(err)
		}
		StripCRC8(UpdateCRC8(0, frame), 3, 90)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzFabric holds Parse and Dump to their promises for any bytes.
func FuzzFabric(f *testing.F) {
	f.Add(fabricFrame(func(*FabricHeader, []byte) {}))
	f.Add(fabricFrame(func(h *FabricHeader, _ []byte) { h.Kind, h.Size = FabricCredit, 0 }))
	f.Add(fabricFrame(func(h *FabricHeader, _ []byte) { h.Kind, h.Size, h.Offset = FabricBreak, 0, 3 }))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		checkFabric(t, frame)
		if len(frame) < ethertype.HeaderSize {
			return
		}
		// Few inputs have the right CRC. Give them one.
		var h FabricHeader
		h.get(frame)
		h.Put(frame)
		checkFabric(t, frame)
	})
}

func checkFabric(t *testing.T, frame []byte) {
	if Dump(frame) == "" {
		t.Error("nothing dumped")
	}
	var h FabricHeader
	part, err := h.Parse(frame)
	if err != nil {
		if part != nil {
			t.Error("a part of a refused frame")
		}
		return
	}
	if !isFabric(frame) {
		t.Error("parsed, and not of the fabric")
	}
	if dumpPacket(part, int(h.Length)) == "" {
		t.Error("nothing dumped of the packet")
	}
	again := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(part))
	h.Put(again)
	if again = append(again, part...); !bytes.Equal(again, frame[:len(again)]) {
		t.Errorf("encoded again: % x, was % x", again, frame)
	}
}

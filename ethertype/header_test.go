package ethertype

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/mdlayher/ethernet"
	"pgregory.net/rapid"
)

// sample has a different value in every byte of every field.
var sample = Header{
	Dst:     MAC{0x02, 0x11, 0x12, 0x13, 0x14, 0x15},
	Src:     MAC{0x06, 0x21, 0x22, 0x23, 0x24, 0x25},
	Type:    Default,
	Kind:    KindData,
	Flags:   FlagLast | FlagRetry,
	DstPort: 0x3132,
	SrcPort: 0x3334,
	Tag:     0x41424344,
	Seq:     0x51525354,
	Ack:     0x61626364,
	Msg:     0x71727374,
	Sack:    0x8182838485868788,
	Offset:  0x00009192,
	Length:  0x0000a1a2,
	Size:    3,
	Count:   0xb1b2,
}

// sampleBytes is the sample on the wire, without CRC and payload, written from
// the table in the package's documentation.
var sampleBytes = []byte{
	0x02, 0x11, 0x12, 0x13, 0x14, 0x15, // 0 dst
	0x06, 0x21, 0x22, 0x23, 0x24, 0x25, // 6 src
	0x88, 0xb5, // 12 type
	0x01,       // 14 version
	0x01,       // 15 kind
	0x00, 0x21, // 16 flags
	0x31, 0x32, // 18 dstport
	0x33, 0x34, // 20 srcport
	0x41, 0x42, 0x43, 0x44, // 22 tag
	0x51, 0x52, 0x53, 0x54, // 26 seq
	0x61, 0x62, 0x63, 0x64, // 30 ack
	0x71, 0x72, 0x73, 0x74, // 34 msg
	0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, // 38 sack
	0x00, 0x00, 0x91, 0x92, // 46 offset
	0x00, 0x00, 0xa1, 0xa2, // 50 length
	0x00, 0x03, // 54 size
	0xb1, 0xb2, // 56 count
}

// encode returns the sealed frame of h and payload.
func encode(h Header, payload []byte) []byte {
	h.Size = uint16(len(payload))
	b := make([]byte, HeaderSize, HeaderSize+len(payload))
	h.Put(b)
	Seal(b, payload)
	return append(b, payload...)
}

// slowCRC is CRC32C by its definition, a bit at a time.
func slowCRC(b []byte) uint32 {
	sum := uint32(math.MaxUint32)
	for _, v := range b {
		sum ^= uint32(v)
		for range 8 {
			sum = sum>>1 ^ 0x82f63b78*(sum&1)
		}
	}
	return ^sum
}

func TestFieldTable(t *testing.T) {
	frame := encode(sample, []byte("abc"))
	sum := slowCRC(sampleBytes)
	want := append(bytes.Clone(sampleBytes), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum), 'a', 'b', 'c')
	if !bytes.Equal(frame, want) {
		t.Errorf("encoded\n% x, want\n% x", frame, want)
	}
	var h Header
	payload, err := h.Parse(append(want, "padding"...))
	if err != nil {
		t.Fatal(err)
	}
	if h != sample || string(payload) != "abc" {
		t.Errorf("parsed %+v with %q, want %+v", h, payload, sample)
	}
}

func TestSizes(t *testing.T) {
	if BaseSize != 48 || HeaderSize != 62 || HeaderSize%16 != 14 || MaxSize > math.MaxUint16 {
		t.Errorf("sizes %d, %d, %d do not fit the documentation", BaseSize, HeaderSize, MaxSize)
	}
	if fieldCRC+4 != HeaderSize || fieldVersion != EthernetSize {
		t.Error("the field table does not span the header")
	}
	if got := slowCRC([]byte("123456789")); got != 0xe3069283 {
		t.Errorf("the test's CRC32C of the check string is %#x", got)
	}
}

// drawHeader draws any header that Parse accepts, and a payload for it.
func drawHeader(t *rapid.T) (Header, []byte) {
	var h Header
	copy(h.Dst[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "dst"))
	copy(h.Src[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "src"))
	h.Type = ethernet.EtherType(rapid.Uint16Range(0x88b0, 0x88ff).Draw(t, "type"))
	h.Kind = Kind(rapid.IntRange(int(KindInvalid)+1, int(KindTrial)-1).Draw(t, "kind"))
	h.Flags = Flags(rapid.Uint16().Draw(t, "flags")) &^ flagsReserved
	if h.Kind != KindData {
		h.Flags &^= FlagPacked
	}
	if h.Kind != KindRDMAWrite {
		h.Flags &^= FlagUnordered
	}
	if !h.Kind.Follows() {
		h.Flags &^= FlagMore
	}
	h.DstPort = rapid.Uint16().Draw(t, "dstport")
	h.SrcPort = rapid.Uint16().Draw(t, "srcport")
	h.Tag = rapid.Uint32().Draw(t, "tag")
	h.Seq = Seq(rapid.Uint32().Draw(t, "seq"))
	h.Ack = Seq(rapid.Uint32().Draw(t, "ack"))
	h.Msg = Seq(rapid.Uint32().Draw(t, "msg"))
	h.Sack = rapid.Uint64().Draw(t, "sack")
	h.Offset = rapid.Uint32Range(0, math.MaxUint32-MaxSize).Draw(t, "offset")
	most := 300
	if h.Kind == KindRDMARead { // has no data
		most = RDMASize
	}
	payload := rapid.SliceOfN(rapid.Byte(), RDMASize, most).Draw(t, "payload")
	h.Length = h.Offset + uint32(len(payload)) + rapid.Uint32Range(0, math.MaxUint16).Draw(t, "more")%(math.MaxUint32-h.Offset-MaxSize+1)
	h.Size = uint16(len(payload))
	h.Count = rapid.Uint16().Draw(t, "count")
	return h, payload
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, wantPayload := drawHeader(t)
		frame := encode(want, wantPayload)
		padded := append(bytes.Clone(frame), make([]byte, rapid.IntRange(0, 20).Draw(t, "padding"))...)
		if want.Flags&FlagMore != 0 {
			padded = append(padded, make([]byte, HeaderSize)...)
		}
		var got Header
		payload, err := got.Parse(padded)
		if err != nil {
			t.Fatalf("%v: %v", &want, err)
		}
		if got != want || !bytes.Equal(payload, wantPayload) {
			t.Errorf("got %+v, % x\nwant %+v, % x", got, payload, want, wantPayload)
		}
		if again := encode(got, payload); !bytes.Equal(again, frame) {
			t.Errorf("encoded again: % x, want % x", again, frame)
		}
	})
}

// TestEthernetOracle has another implementation read and write the Ethernet
// header.
func TestEthernetOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, payload := drawHeader(t)
		frame := encode(h, payload)
		var f ethernet.Frame
		if err := f.UnmarshalBinary(frame); err != nil {
			t.Fatal(err)
		}
		if MAC(f.Destination) != h.Dst || MAC(f.Source) != h.Src || f.EtherType != h.Type {
			t.Errorf("oracle read %v > %v %v from %v", f.Source, f.Destination, f.EtherType, &h)
		}
		written, err := f.MarshalBinary()
		if err != nil || !bytes.Equal(written, frame) {
			t.Errorf("oracle wrote % x, %v, want % x", written, err, frame)
		}
	})
}

// TestParseRefuses changes one thing of a good frame at a time.
func TestParseRefuses(t *testing.T) {
	data := func(change func(h *Header)) []byte {
		h := sample
		change(&h)
		return encode(h, []byte("abc"))
	}
	unsealed := func(at int, value byte) []byte {
		b := encode(sample, []byte("abc"))
		b[at] = value
		return b
	}
	request := sample
	request.Kind, request.Offset = KindRDMARead, 0
	for _, test := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"empty", nil, ErrShort},
		{"header cut", encode(sample, nil)[:HeaderSize-1], ErrShort},
		{"payload cut", encode(sample, []byte("abc"))[:HeaderSize+2], ErrShort},
		{"version 0", unsealed(fieldVersion, 0), ErrVersion},
		{"version 2", unsealed(fieldVersion, 2), ErrVersion},
		{"kind 0", data(func(h *Header) { h.Kind = KindInvalid }), ErrKind},
		{"a link's trial", data(func(h *Header) { h.Kind = KindTrial }), ErrKind},
		{"kind too large", data(func(h *Header) { h.Kind = kindEnd }), ErrKind},
		{"flag", data(func(h *Header) { h.Flags = flagEnd }), errFlags},
		{"reserved flag 0x80", data(func(h *Header) { h.Flags = FlagLast | 0x80 }), errFlags},
		{"highest flag", data(func(h *Header) { h.Flags = 1 << 15 }), errFlags},
		{"CRC", unsealed(fieldCRC, 0), ErrCRC},
		{"CRC before range", unsealed(fieldOffset, 0xff), ErrCRC},
		{"end past message", data(func(h *Header) { h.Offset = h.Length - 2 }), ErrRange},
		{"start past message", data(func(h *Header) { h.Offset = h.Length + 1 }), ErrRange},
		{"offset wraps", data(func(h *Header) { h.Offset = math.MaxUint32 }), ErrRange},
		{"no room for immediate", data(func(h *Header) { h.Flags = FlagImmediate }), ErrRange},
		{"no room for RDMA", data(func(h *Header) { h.Kind = KindRDMAWrite }), ErrRange},
		{"no room for the source of a read", data(func(h *Header) { h.Kind = KindRDMARead }), ErrRange},
		{"read request with data", encode(request, make([]byte, RDMASize+1)), ErrRange},
		{"read request past its end", encode(Header{Kind: KindRDMARead, Offset: 5, Length: 4}, make([]byte, RDMASize)), ErrRange},
		{"read request", encode(request, make([]byte, RDMASize)), nil},
		{"read data past the end", data(func(h *Header) { h.Kind, h.Offset = KindReadData, h.Length-2 }), ErrRange},
		{"read data", data(func(h *Header) { h.Kind, h.Flags = KindReadData, FlagImmediate }), nil},
		{"packed read data", data(func(h *Header) { h.Kind, h.Flags = KindReadData, FlagPacked }), errFlags},
		{"packed write", data(func(h *Header) { h.Kind, h.Flags = KindRDMAWrite, FlagPacked }), errFlags},
		{"unordered write", encode(Header{Kind: KindRDMAWrite, Flags: FlagUnordered}, make([]byte, RDMASize)), nil},
		{"unordered data", data(func(h *Header) { h.Flags = FlagUnordered }), errFlags},
		{"unordered read", encode(Header{Kind: KindRDMARead, Flags: FlagUnordered}, make([]byte, RDMASize)), errFlags},
		{"query that another follows", data(func(h *Header) { h.Kind, h.Flags = KindQuery, FlagMore }), errFlags},
		{"piece that another follows", data(func(h *Header) { h.Kind, h.Flags = KindPiece, FlagMore }), errFlags},
		{"data that nothing follows", data(func(h *Header) { h.Offset, h.Flags = h.Length-3, FlagMore }), ErrShort},
		{"packed ack", data(func(h *Header) { h.Kind, h.Flags = KindAck, FlagPacked }), errFlags},
		{"good", data(func(h *Header) { h.Offset = h.Length - 3 }), nil},
		{"packed data", data(func(h *Header) { h.Flags, h.Offset = FlagPacked, math.MaxUint32 }), nil},
	} {
		var h Header
		payload, err := h.Parse(test.frame)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if err != nil && payload != nil {
			t.Errorf("%s: refused, with a payload", test.name)
		}
	}
}

// TestCRCDetects flips every bit of the protected part of a frame.
func TestCRCDetects(t *testing.T) {
	for _, test := range []struct {
		flags     Flags
		protected int
	}{
		{0, HeaderSize},
		{FlagWholeCRC, HeaderSize + 40},
	} {
		h := sample
		h.Flags = test.flags
		frame := encode(h, bytes.Repeat([]byte("data "), 8))
		for bit := range 8 * test.protected {
			frame[bit/8] ^= 1 << (bit % 8)
			var got Header
			if _, err := got.Parse(frame); err == nil {
				t.Errorf("%s: flip of bit %d of byte %d was not detected", test.flags, bit%8, bit/8)
			}
			frame[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestSealParts seals one payload, cut in different places.
func TestSealParts(t *testing.T) {
	h := sample
	h.Flags |= FlagWholeCRC
	payload := []byte("a payload in several parts")
	want := encode(h, payload)
	for cut := range payload {
		for second := cut; second <= len(payload); second++ {
			head := append(bytes.Clone(want[:HeaderSize]), payload[:cut]...)
			clear(head[fieldCRC:HeaderSize])
			Seal(head, payload[cut:second], nil, payload[second:])
			if !bytes.Equal(head[:HeaderSize], want[:HeaderSize]) {
				t.Errorf("cut at %d and %d: another CRC", cut, second)
			}
		}
	}
}

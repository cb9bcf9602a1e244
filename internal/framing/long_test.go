package framing

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/mdlayher/ethernet"
)

// longFrame returns a frame with size bytes of payload, and the same as a long frame.
func longFrame(size int) (plain, long []byte) {
	h := ethertype.Header{Dst: ethertype.MAC{2, 0, 0, 0, 0, 0xb}, Src: ethertype.MAC{2, 0, 0, 0, 0, 0xa}, Type: ethertype.Default,
		Kind: ethertype.KindData, DstPort: 0x401, SrcPort: 0x402, Tag: 0x1a2b3c4d, Seq: 0x50607, Size: uint16(size), Length: uint32(size)}
	plain = make([]byte, ethertype.HeaderSize+size)
	h.Put(plain)
	for i := range plain[ethertype.HeaderSize:] {
		plain[ethertype.HeaderSize+i] = byte(i)
	}
	ethertype.Seal(plain)
	long = make([]byte, ethertype.EthernetSize+LongHeader, LongHeader+len(plain))
	PutLong(long, plain, len(plain))
	return plain, append(long, plain[ethertype.EthernetSize:]...)
}

// TestPutLong: the headers are what the comment says, byte by byte.
func TestPutLong(t *testing.T) {
	plain, long := longFrame(4000)
	want, err := hex.DecodeString(strings.ReplaceAll(
		"02000000000b 02000000000a 86dd "+
			"60 000000 0fe4 06 01 ff1088b5 1a2b3c4d0000 02000000000a ff1088b5 000000000000 02000000000b "+
			"0402 0401 00000000", " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, plain[58:62]...)
	want = append(want, 0x50, 0x10, 0x0f, 0xd0, 0, 0, 0x06, 0x07)
	sum := 0xff10 + 0x88b5 + 0x1a2b + 0x3c4d + 0x0200 + 0x0a + 0xff10 + 0x88b5 + 0x0200 + 0x0b + 6 + 20 + 48 + 4000
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	want[len(want)-4], want[len(want)-3] = byte(sum>>8), byte(sum)
	if got := long[:ethertype.EthernetSize+LongHeader]; !bytes.Equal(got, want) {
		t.Errorf("headers\n% x, want\n% x", got, want)
	}
	if kind := JudgeLong(long[:200], len(long), ethertype.Default); kind != LongWhole {
		t.Errorf("a whole frame is judged %d", kind)
	}
	if got := ShortenLong(long, ethertype.Default); !bytes.Equal(got, plain) {
		t.Errorf("what it stands for begins % x", got[:80])
	}
	if whole := ethertype.EthernetSize + LongHeader + LongMTU; whole >= 1<<16 {
		t.Errorf("a long frame has %d bytes", whole)
	}
}

// cut returns the segments that a card makes of a long frame.
func cut(long []byte, mss int) (segments [][]byte) {
	const header = ethertype.EthernetSize + LongHeader
	for at := header; at < len(long); at += mss {
		data := long[at:min(at+mss, len(long))]
		s := append(append([]byte(nil), long[:header]...), data...)
		SetSegment(s, at-header)
		segments = append(segments, s)
	}
	return segments
}

// TestJudgeCut: segments of every length are known as such, also by their beginning alone.
func TestJudgeCut(t *testing.T) {
	_, long := longFrame(9000)
	for _, mss := range []int{60, 536, 1440, 8940, 9047} {
		for i, s := range cut(long, mss) {
			if kind := JudgeLong(s[:min(len(s), 280)], len(s), ethertype.Default); kind != LongCut {
				t.Errorf("segment %d of %d bytes is judged %d", i, mss, kind)
			}
		}
	}
}

// TestJudgeFlipped: a flipped bit of any byte before the Bobnet header makes a frame another kind,
// except of the checksum, which nobody reads. So does one in those fields of the Bobnet header
// that the headers repeat.
func TestJudgeFlipped(t *testing.T) {
	_, long := longFrame(4000)
	segment := cut(long, 1440)[1]
	const header = ethertype.EthernetSize + LongHeader
	for name, c := range map[string]struct {
		frame []byte
		kind  LongKind
	}{"whole": {long, LongWhole}, "segment": {segment, LongCut}} {
		for i := range 8 * header {
			frame := bytes.Clone(c.frame)
			frame[i/8] ^= 1 << (i % 8)
			kind := JudgeLong(frame, len(frame), ethertype.Default)
			checksum := i/8 == ethertype.EthernetSize+longSum || i/8 == ethertype.EthernetSize+longSum+1
			// Of a segment alone, nothing repeats its place, the frame's name and ports, and its length beyond this
			// segment's end.
			tag := i/8 >= ethertype.EthernetSize+longTag && i/8 < ethertype.EthernetSize+longTag+4
			alone := name == "segment" && (tag || i/8 >= ethertype.EthernetSize+longPorts && i/8 < header)
			if (kind == c.kind) != checksum && !alone {
				t.Errorf("%s: with byte %d of the headers flipped it is judged %d", name, i/8, kind)
			}
		}
	}
	for _, i := range []int{4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 44, 45, 46, 47} { // ports, tag, sequence number and CRC
		frame := bytes.Clone(long)
		frame[header+i] ^= 1
		if kind := JudgeLong(frame, len(frame), ethertype.Default); kind != LongForged {
			t.Errorf("with byte %d of the Bobnet header flipped it is judged %d", i, kind)
		}
	}
}

// FuzzJudgeLong: whatever comes, a frame that is judged whole is one that PutLong makes.
func FuzzJudgeLong(f *testing.F) {
	_, long := longFrame(300)
	f.Add(long, len(long))
	f.Add(long[:200], len(long))
	for _, s := range cut(long, 150) {
		f.Add(s, len(s))
	}
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if kind := JudgeLong(b, size, ethertype.Default); kind != LongWhole {
			return
		}
		if size < len(b) {
			return // no kernel says so
		}
		begin := ShortenLong(bytes.Clone(b), ethertype.Default)
		want := make([]byte, ethertype.EthernetSize+LongHeader)
		PutLong(want, begin, size-LongHeader)
		got := bytes.Clone(b[:len(want)])
		copy(got[ethertype.EthernetSize+longSum:], want[ethertype.EthernetSize+longSum:][:2])
		if !bytes.Equal(got, want) {
			t.Errorf("judged whole:\n% x, want\n% x", got, want)
		}
	})
}

// TestLongTypes: a long frame of another EtherType is none.
func TestLongTypes(t *testing.T) {
	_, long := longFrame(4000)
	for _, typ := range []ethernet.EtherType{ethertype.Fabric, ethernet.EtherTypeIPv6, 0} {
		if kind := JudgeLong(long, len(long), typ); kind != LongForged {
			t.Errorf("as of %#04x it is judged %d", uint16(typ), kind)
		}
	}
}

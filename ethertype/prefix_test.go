package ethertype

import (
	"bytes"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// checkPrefix holds the prefix of a frame that Parse has accepted to what Parse
// has found.
func checkPrefix(t *testing.T, want *Header, frame, payload []byte) {
	p := want.Prefix()
	got := *want
	got.Seq, got.Ack, got.Msg, got.Sack, got.Offset, got.Length, got.Size, got.Count = 0, 0, 0, 0, 0, 0, 0, 0
	data, ok := p.Parse(&got, frame)
	switch {
	case !ok:
		t.Fatalf("the frame %+v has not its own prefix", *want)
	case got != *want || !bytes.Equal(data, payload):
		t.Fatalf("by its prefix the frame is %+v with % x, was %+v with % x", got, data, *want, payload)
	}
}

// wholeFrame returns a header and its sealed frame, of a whole message of data.
func wholeFrame(flags Flags, data []byte) (Header, []byte) {
	h := sample
	h.Flags, h.Offset, h.Length, h.Size = flags, 0, uint32(len(data)), uint16(len(data))
	return h, encode(h, data)
}

func TestPrefix(t *testing.T) {
	for _, flags := range []Flags{FlagLast, FlagLast | FlagWholeCRC} {
		h, frame := wholeFrame(flags, []byte("seven"))
		p := h.Prefix()
		checkPrefix(t, &h, frame, []byte("seven"))
		for i := range frame[:HeaderSize] {
			frame[i] ^= 4
			if i >= fieldCRC { // else its CRC fits, so that only the prefix tells
				frame[i] ^= 1
			} else {
				Seal(frame)
			}
			var other Header
			_, ok := p.Parse(&other, frame)
			may := i >= fieldSeq && i < fieldCRC
			switch i {
			case fieldSize: // more than there is
				may = false
			case fieldSize + 1: // less, so that the CRC is of less
				may = flags&FlagWholeCRC == 0
			}
			if ok != may {
				t.Errorf("flags %v: with another byte %d ok is %v", flags, i, ok)
			}
			_, frame = wholeFrame(flags, []byte("seven"))
		}
		for n := range len(frame) {
			if _, ok := p.Parse(&h, frame[:n]); ok {
				t.Errorf("flags %v: %d bytes are enough", flags, n)
			}
		}
	}
	var none Prefix
	zeros := make([]byte, HeaderSize)
	Seal(zeros)
	if _, ok := none.Parse(new(Header), zeros); ok {
		t.Error("the zero Prefix is that of zeros")
	}
}

func TestSumHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := [fieldCRC]byte(rapid.SliceOfN(rapid.Byte(), fieldCRC, fieldCRC).Draw(t, "head"))
		want := crc32.Checksum(head[:], crc32.MakeTable(crc32.Castagnoli))
		if got := sumHeader(&head); got != want {
			t.Fatalf("%#x, want %#x", got, want)
		}
		if got := sumTable(&head); got != want {
			t.Fatalf("by table %#x, want %#x", got, want)
		}
	})
}

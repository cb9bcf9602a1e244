package ethertype

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"
)

func FuzzParse(f *testing.F) {
	add := func(change func(h *Header), payload []byte) {
		h := sample
		change(&h)
		f.Add(encode(h, payload))
	}
	add(func(h *Header) {}, []byte("abc"))
	add(func(h *Header) { h.Flags = FlagWholeCRC | FlagImmediate }, []byte("12345"))
	add(func(h *Header) { h.Flags = FlagPacked; h.Count = 2 }, packed("one", "seven"))
	add(func(h *Header) { h.Kind = KindRDMAWrite }, make([]byte, 20))
	add(func(h *Header) { h.Kind = KindRDMARead; h.Offset = 0 }, make([]byte, RDMASize))
	add(func(h *Header) { h.Kind = KindReadData }, []byte("read"))
	add(func(h *Header) { h.Kind = KindEcho }, nil)
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		checkParse(t, frame)
		if len(frame) < HeaderSize {
			return
		}
		// Few inputs have the right CRC. Give them one, so that the checks
		// behind it are met too.
		if size := int(binary.BigEndian.Uint16(frame[fieldSize:])); HeaderSize+size <= len(frame) {
			Seal(frame[:HeaderSize+size])
			checkParse(t, frame)
		}
	})
}

// checkParse holds Parse to its promises for any bytes.
func checkParse(t *testing.T, frame []byte) {
	var h Header
	payload, err := h.Parse(frame)
	if Dump(frame) == "" {
		t.Error("nothing dumped")
	}
	if err != nil {
		if payload != nil {
			t.Error("payload of a refused frame")
		}
		return
	}
	if len(payload) != int(h.Size) || HeaderSize+len(payload) > len(frame) ||
		unsafe.SliceData(payload) != unsafe.SliceData(frame[HeaderSize:]) {
		t.Fatalf("payload of %d bytes is not the %d behind the header", len(payload), h.Size)
	}
	if h.Kind == KindRDMAWrite || h.Kind == KindRDMARead {
		ParseRDMA(payload)
	}
	checkPrefix(t, &h, frame, payload)
	if h.Flags&FlagPacked != 0 {
		for ok := true; ok; {
			_, _, payload, ok = NextRecord(payload)
		}
	}
	if again := encode(h, frame[HeaderSize:HeaderSize+int(h.Size)]); !bytes.Equal(again, frame[:len(again)]) {
		t.Errorf("encoded again: % x, was % x", again, frame)
	}
}

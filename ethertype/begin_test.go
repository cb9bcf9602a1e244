package ethertype

import (
	"bytes"
	"errors"
	"testing"
)

// TestParseBegin takes bytes away from the end of frames that Parse accepts.
func TestParseBegin(t *testing.T) {
	payload := bytes.Repeat([]byte("abc"), 100)
	for _, flags := range []Flags{0, FlagWholeCRC} {
		h := Header{Kind: KindData, Flags: flags, Size: uint16(len(payload)), Length: uint32(len(payload))}
		frame := make([]byte, HeaderSize)
		h.Put(frame)
		Seal(frame, payload)
		frame = append(frame, payload...)
		for cut := 0; cut <= len(frame); cut++ {
			begin, have := frame[:len(frame)-cut], max(len(payload)-cut, 0)
			var got Header
			part, err := got.ParseBegin(begin, cut)
			var want error
			if len(begin) < HeaderSize || flags != 0 && cut > 0 {
				want = ErrShort
			}
			if !errors.Is(err, want) || err == nil && !bytes.Equal(part, payload[:have]) {
				t.Fatalf("flags %v, %d bytes missing: %d bytes of payload, %v", flags, cut, len(part), err)
			}
			if _, err := got.ParseBegin(begin, cut-1); cut > 0 && err != ErrShort {
				t.Fatalf("flags %v, %d bytes missing and one more than said: %v", flags, cut, err)
			}
		}
		frame[fieldLength]++
		var got Header
		if _, err := got.ParseBegin(frame[:HeaderSize+10], len(payload)-10); flags == 0 && err != ErrCRC {
			t.Errorf("damaged: %v", err)
		}
	}
}

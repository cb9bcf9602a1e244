package ethertype

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// packed returns the payload of a packed frame of these messages.
func packed(messages ...string) []byte {
	var b []byte
	for _, m := range messages {
		at := len(b)
		b = append(b, make([]byte, Packed(len(m)))...)
		Record{Size: uint16(len(m))}.Put(b[at:])
		copy(b[at+RecordSize:], m)
	}
	return b
}

func TestPackedSize(t *testing.T) {
	for n, want := range map[int]int{0: 8, 1: 16, 7: 16, 8: 16, 9: 24, 16: 24, 17: 32} {
		if got := Packed(n); got != want {
			t.Errorf("Packed(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestRecordBytes(t *testing.T) {
	got := make([]byte, RecordSize)
	Record{Size: 0x0102, Immediate: 0x03040506, HasImm: true}.Put(got)
	if want := []byte{1, 2, 0, 2, 3, 4, 5, 6}; !bytes.Equal(got, want) {
		t.Errorf("record % x, want % x", got, want)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type message struct {
			data      string
			immediate uint32
			has       bool
		}
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message {
			return message{
				rapid.StringN(0, 40, 40).Draw(t, "data"), rapid.Uint32().Draw(t, "immediate"), rapid.Bool().Draw(t, "has"),
			}
		}), 0, 8).Draw(t, "messages")
		var payload []byte
		for _, m := range want {
			at := len(payload)
			payload = append(payload, make([]byte, Packed(len(m.data)))...)
			Record{Size: uint16(len(m.data)), Immediate: m.immediate, HasImm: m.has}.Put(payload[at:])
			copy(payload[at+RecordSize:], m.data)
		}
		for i, m := range want {
			r, data, rest, ok := NextRecord(payload)
			if !ok {
				t.Fatalf("no record %d", i)
			}
			if got := (message{string(data), r.Immediate, r.HasImm}); got != m {
				t.Errorf("message %d is %+v, want %+v", i, got, m)
			}
			payload = rest
		}
		if len(payload) != 0 {
			t.Errorf("%d bytes left over", len(payload))
		}
	})
}

func TestNextRecordRefuses(t *testing.T) {
	good := packed("message")
	unknownFlag := bytes.Clone(good)
	unknownFlag[3] = 1
	tooLong := bytes.Clone(good)
	tooLong[1] = 9
	for name, payload := range map[string][]byte{
		"nothing":        nil,
		"half a record":  good[:RecordSize-1],
		"data cut":       good[:len(good)-2],
		"padding cut":    good[:len(good)-1],
		"unknown flag":   unknownFlag,
		"size too large": tooLong,
	} {
		if _, data, rest, ok := NextRecord(payload); ok || data != nil || rest != nil {
			t.Errorf("%s: a record", name)
		}
	}
	if _, data, rest, ok := NextRecord(good); !ok || string(data) != "message" || len(rest) != 0 {
		t.Errorf("good record: %q, %d left, %v", data, len(rest), ok)
	}
}

func TestRDMA(t *testing.T) {
	want := RDMA{Addr: 0x0102030405060708, Handle: 0x090a0b0c, Immediate: 0x0d0e0f10}
	payload := append(make([]byte, RDMASize), "data"...)
	want.Put(payload)
	if wire := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 'd', 'a', 't', 'a'}; !bytes.Equal(payload, wire) {
		t.Errorf("encoded % x, want % x", payload, wire)
	}
	got, data := ParseRDMA(payload)
	if got != want || string(data) != "data" {
		t.Errorf("parsed %+v and %q", got, data)
	}
}

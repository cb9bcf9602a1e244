package mplite

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestHeaderRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	payload := []byte{1, 2, 3}
	for range 1000 {
		want := header{
			kind: kindEager, flags: uint8(rng.IntN(flagEnd)), land: uint8(rng.Uint32()), control: uint8(rng.Uint32()), data: uint16(rng.Uint32()),
			context: rng.Uint32(), tag: rng.Int32(), size: uint64(len(payload)), sendID: rng.Uint32(), recvID: rng.Uint32(),
		}
		if want.collective() {
			want.call = rng.Uint64()
		}
		b := make([]byte, headerSize+callSize+len(payload))
		n := want.put(b)
		b = b[:n+copy(b[n:], payload)]
		var got header
		rest, ok := got.parse(b)
		if !ok || got != want || !bytes.Equal(rest, payload) {
			t.Fatalf("parsed %+v %v %v, want %+v", got, rest, ok, want)
		}
	}
}

// FuzzHeader feeds any bytes to the parsers: they must not panic, and what
// they accept must be safe to act on.
func FuzzHeader(f *testing.F) {
	for k := range kindEnd {
		b := make([]byte, headerSize+targetSize)
		(&header{kind: k}).put(b)
		f.Add(b)
		f.Add(b[:headerSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		payload, ok := h.parse(b)
		if !ok {
			return
		}
		switch {
		case h.kind == kindInvalid || h.kind >= kindEnd:
			t.Fatalf("kind %d accepted", h.kind)
		case h.kind == kindEager && h.size != uint64(len(payload)),
			h.kind == kindReady && (h.size > maxMessage || len(payload) != 0),
			h.kind == kindClear && len(payload) < targetSize,
			h.kind == kindAsk && len(payload) != askSize, h.kind == kindDiffer && len(payload) < differSize:
			t.Fatalf("%+v with %d bytes of payload accepted", h, len(payload))
		case (h.kind == kindEager || h.kind == kindReady) && h.tag < 0:
			t.Fatalf("%+v accepted", h)
		}
	})
}

func TestSwap(t *testing.T) {
	for _, unit := range []int{1, 2, 4, 8} {
		b := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
		swap(b, unit)
		for i := range 16 {
			group, at := i/unit*unit, i%unit
			if want := byte(group + unit - 1 - at); b[i] != want {
				t.Errorf("unit %d: byte %d is %d, want %d", unit, i, b[i], want)
			}
		}
		if b[16] != 16 {
			t.Errorf("unit %d: half an element was touched", unit)
		}
	}
}

// TestControlQueueKeepsOrder grows the queue while it wraps around.
func TestControlQueueKeepsOrder(t *testing.T) {
	var q controlQueue
	rng := rand.New(rand.NewPCG(3, 4))
	var pushed, popped uint32
	for range 10_000 {
		if rng.IntN(5) < 2 && q.Len() > 0 {
			if got := q.At(0).sendID; got != popped {
				t.Fatalf("front is %d, want %d", got, popped)
			}
			q.Pop()
			popped++
			continue
		}
		q.Push(control{sendID: pushed})
		pushed++
	}
	if q.Len() != int(pushed-popped) {
		t.Fatalf("%d in the queue, want %d", q.Len(), pushed-popped)
	}
}

func TestSpillPoolIsBoundedAndReused(t *testing.T) {
	s := spillPool{limit: 10_000}
	var got []*inbound
	for {
		in := s.get(make([]byte, 1000))
		if in == nil {
			break
		}
		got = append(got, in)
	}
	if want := 10_000 / (1024 + spillOverhead); len(got) != want {
		t.Fatalf("the pool held %d messages, want %d", len(got), want)
	}
	for _, in := range got {
		s.put(in)
	}
	if s.used != 0 {
		t.Fatalf("%d bytes are used by nothing", s.used)
	}
	if again := s.get([]byte("x")); again == nil || string(again.data) != "x" {
		t.Fatal("the pool cannot be used again")
	}
}

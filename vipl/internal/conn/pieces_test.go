package conn

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"pgregory.net/rapid"
)

const port = 77

// whole returns a frame of so many bytes.
func whole(seq ethertype.Seq, size int) []byte {
	h := ethertype.Header{Kind: ethertype.KindData, DstPort: port, Seq: seq, Length: uint32(size - ethertype.HeaderSize), Size: uint16(size - ethertype.HeaderSize), Count: 1}
	frame := make([]byte, size)
	h.Put(frame)
	for i := ethertype.HeaderSize; i < size; i++ {
		frame[i] = byte(i * 7)
	}
	ethertype.Seal(frame)
	return frame
}

// TestAnyOrder: a frame is whole when each of its pieces has come, in whatever order and however often,
// and not before; also if another frame was begun before it.
func TestAnyOrder(t *testing.T) {
	f := newReassembly()
	rapid.Check(t, func(t *rapid.T) {
		seq := ethertype.Seq(rapid.Uint32().Draw(t, "seq"))
		frame := whole(seq, rapid.IntRange(ethertype.HeaderSize+1, longestFrame).Draw(t, "size"))
		per := max(rapid.IntRange(1, 2000).Draw(t, "per"), (len(frame)+255)/256)
		f.AddPiece(&ethertype.Header{Msg: seq - 1, Length: uint32(len(frame))}, frame[:1]) // another one's
		n := (len(frame) + per - 1) / per
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)).Perm(n)
		for k, i := range order {
			part := frame[i*per : min((i+1)*per, len(frame))]
			h := ethertype.Header{Msg: seq, Count: uint16(i), Offset: uint32(i * per), Length: uint32(len(frame))}
			if !pieceFits(&h, part) {
				t.Fatalf("piece %d of %d does not fit", i, n)
			}
			if whole := f.AddPiece(&h, part); whole != (k == n-1) {
				t.Fatalf("whole after %d of %d pieces: %v", k+1, n, whole)
			}
			if k < n-1 && f.AddPiece(&h, part) {
				t.Fatal("a piece counts twice")
			}
		}
		if got := f.Whole(port); f.Begun || !bytes.Equal(got, frame) {
			t.Fatalf("%d bytes, want %d", len(got), len(frame))
		}
	})
}

// TestFits lists pieces of no frame.
func TestFits(t *testing.T) {
	good := ethertype.Header{Offset: 10, Length: 1000, Count: 1}
	for name, change := range map[string]func(h *ethertype.Header){
		"too long":            func(h *ethertype.Header) { h.Length = longestFrame + 1 },
		"no more than header": func(h *ethertype.Header) { h.Length = ethertype.HeaderSize },
		"too many":            func(h *ethertype.Header) { h.Count = 256 },
		"behind the end":      func(h *ethertype.Header) { h.Offset = 901 },
		"far behind":          func(h *ethertype.Header) { h.Offset = 1<<32 - 50 },
	} {
		h := good
		if change(&h); pieceFits(&h, make([]byte, 100)) {
			t.Errorf("%s: it fits", name)
		}
	}
	if !pieceFits(&good, make([]byte, 100)) || pieceFits(&good, nil) {
		t.Error("a good one does not fit, or one without data does")
	}
}

// TestWhole: what was put together counts only if it is a frame to the port, of the number that the pieces said.
func TestWhole(t *testing.T) {
	frame := whole(5, 500)
	for name, c := range map[string]struct {
		seq  ethertype.Seq
		port uint16
		flip int
	}{"another number": {6, port, -1}, "another port": {5, port + 1, -1}, "damaged": {5, port, 20}} {
		f, b := newReassembly(), bytes.Clone(frame)
		if c.flip >= 0 {
			b[c.flip] ^= 1
		}
		if !f.AddPiece(&ethertype.Header{Msg: c.seq, Length: 500}, b) || f.Whole(c.port) != nil {
			t.Errorf("%s: taken", name)
		}
	}
}

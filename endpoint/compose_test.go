package endpoint

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestCompose: what is added to a load, as long as there is room, makes a batch of
// which the server finds every message as it was, whatever their sizes.
func TestCompose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const slots = 80
		s := shape{slots: slots, medium: rapid.SampledFrom([]int{300, 1000, 4096, 20_000}).Draw(rt, "medium")}
		ch := &viChannel{sends: make([]viSend, slots), full: s.full(), room: min(envelopeSize, s.full())}
		mem := bytes.Repeat([]byte{0xEE}, slots*s.full())
		x := &viBatch{viSend: viSend{mem: make([]byte, ch.room)}}
		ch.batching.out = make([]viBatch, 2)
		kinds := []kind{kindShort, kindMedium, kindMedium, kindMedium, kindBulk, kindClear}
		if rapid.Bool().Draw(rt, "short") {
			kinds = []kind{kindShort, kindClear}
		}
		var l load
		for i := range ch.sends {
			b := &ch.sends[i]
			b.mem = mem[i*s.full():][:s.full()]
			b.n = drawSend(rt, b.mem, i, s.medium, rapid.SampledFrom(kinds).Draw(rt, "kind"))
			if i > 0 && rapid.IntRange(0, 9).Draw(rt, "skip") == 0 {
				continue // its slot is not free
			}
			if !ch.add(&l, i) {
				break
			}
			x.members = append(x.members, i)
		}
		if len(x.members) == 0 {
			rt.Fatal("there is no room for the first message")
		}
		ch.compose(x)
		inPlace := map[*byte]bool{}
		short := 0
		for _, i := range x.members {
			b := &ch.sends[i]
			inPlace[&b.mem[0]] = true
			if rounded(b.n) <= ch.room/2 {
				short += rounded(b.n)
			}
		}
		var sent []byte
		for _, seg := range x.desc.Segs {
			sent = append(sent, seg.Data...)
			if !inPlace[&seg.Data[0]] {
				short -= len(seg.Data)
			}
		}
		if short < 0 {
			rt.Fatalf("%d bytes are copied that are not of short messages", -short)
		}
		if len(x.desc.Segs) > l.pieces || l.pieces > piecesMost || len(sent) > batchSize || l.count != len(x.members) || l.count > coalesceMost {
			rt.Fatalf("%d messages, %d bytes, in %d pieces: %+v", len(x.members), len(sent), len(x.desc.Segs), l)
		}
		var last lastTags
		for _, i := range x.members {
			m, rest, ok := splitNext(sent, ch.full)
			if !ok {
				rt.Fatalf("message %d is none", i)
			}
			sent = rest
			compareMessage(rt, &ch.sends[i], m, &last)
		}
		if len(sent) > 0 {
			rt.Fatalf("%d bytes more", len(sent))
		}
	})
}

// TestComposeStream: payloads of nearly full length in slots that follow each other
// are one piece.
func TestComposeStream(t *testing.T) {
	const slots = 16
	s := shape{slots: slots, medium: DefaultMaxMedium}
	mem := make([]byte, slots*s.full())
	ch := &viChannel{sends: make([]viSend, slots), full: s.full(), room: envelopeSize}
	ch.batching.out = make([]viBatch, 2)
	x := &viBatch{}
	var l load
	for i := range ch.sends {
		b := &ch.sends[(i+5)%slots]
		b.mem = mem[(i+5)%slots*s.full():][:s.full()]
		h := header{kind: kindMedium}
		if b.n = h.put(b.mem) + DefaultMaxMedium; ch.add(&l, (i+5)%slots) {
			x.members = append(x.members, (i+5)%slots)
		}
	}
	if ch.compose(x); len(x.members) != 15 || len(x.desc.Segs) != 2 || l.pieces != 2 {
		t.Errorf("%d messages in %d pieces, want 15 in 2: %+v", len(x.members), len(x.desc.Segs), l)
	}
}

// drawSend builds a message in b and returns its length.
func drawSend(rt *rapid.T, b []byte, i, medium int, k kind) int {
	h := header{kind: k, slot: uint16(i), use: 7, tag: Tag(rapid.IntRange(1, 2).Draw(rt, "tag")), replyTag: 5}
	args := make([]uint32, rapid.IntRange(0, MaxShort).Draw(rt, "args"))
	h.args = uint8(len(args))
	n := putArgs(b, h.put(b), args)
	size := 0
	if h.kind == kindMedium || h.kind == kindBulk {
		size = rapid.IntRange(0, medium).Draw(rt, "size")
	}
	for k := range b[n:][:size] {
		b[n+k] = byte(i + k)
	}
	return n + size
}

// compareMessage wants the message m to be what x holds.
func compareMessage(rt *rapid.T, x *viSend, m []byte, last *lastTags) {
	var want, got header
	wantBody, _ := want.parse(x.mem[:x.n], nil)
	gotBody, ok := got.parse(m, last)
	if !ok || got != want || !bytes.Equal(gotBody, wantBody) {
		rt.Fatalf("%+v with %d bytes, want %+v with %d", got, len(gotBody), want, len(wantBody))
	}
}

// TestStuck: what waits for a window goes on when it has been answered, and the
// provider knows that what was written to it has arrived, in whatever order.
func TestStuck(t *testing.T) {
	for name, last := range map[string]func(ch *viChannel, x *viSend){
		"answered": func(ch *viChannel, x *viSend) { ch.landed(x); ch.heard(3) },
		"arrived":  func(ch *viChannel, x *viSend) { ch.heard(3); ch.landed(x) },
	} {
		t.Run(name, func(t *testing.T) {
			n := bareNode(&idleWay{})
			ch := &viChannel{way: &viWay{node: n}, up: &server{}, sends: make([]viSend, 8), room: envelopeSize}
			b := &ch.batching
			b.out, b.ends = make([]viBatch, 2), make([]bool, 4)
			x := &b.out[0].viSend
			x.busy, x.members, b.ends[3] = true, []int{3}, true
			ch.sends[1].n = 4000
			g := &ch.corking
			g.waiting, g.flying = []int{1}, 1
			if ch.flush(); !g.stuck {
				t.Fatal("it is sent without a window")
			}
			ch.resume()
			if last(ch, x); g.stuck || !g.dirty || len(g.waiting) != 1 || b.credit != 1 {
				t.Errorf("stuck: %v, to be flushed: %v, %d wait, %d windows", g.stuck, g.dirty, len(g.waiting), b.credit)
			}
		})
	}
	ch := &viChannel{way: &viWay{node: bareNode(&idleWay{})}, sends: make([]viSend, 8), room: envelopeSize}
	ch.batching.out, ch.batching.ends, ch.batching.credit = make([]viBatch, 2), make([]bool, 4), 1
	ch.batching.out[0].busy = true
	ch.corking.waiting, ch.corking.stuck = []int{1}, true
	if ch.resume(); !ch.corking.stuck {
		t.Error("it goes on although it is not known that what was written before has arrived")
	}
}

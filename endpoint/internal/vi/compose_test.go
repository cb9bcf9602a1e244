package vi

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"pgregory.net/rapid"
)

// TestCompose: what is added to a load, as long as there is room, makes a batch of
// which the server finds every message as it was, whatever their sizes.
func TestCompose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const slots = 80
		s := wire.Shape{Slots: slots, Medium: rapid.SampledFrom([]int{300, 1000, 4096, 20_000}).Draw(rt, "medium")}
		ch := &channel{sends: make([]sendBuffer, slots), full: s.Full(), room: min(envelopeSize, s.Full())}
		mem := bytes.Repeat([]byte{0xEE}, slots*s.Full())
		x := &batchBuffer{sendBuffer: sendBuffer{mem: make([]byte, ch.room)}}
		ch.batching.out = make([]batchBuffer, 2)
		kinds := []wire.Kind{wire.KindShort, wire.KindMedium, wire.KindMedium, wire.KindMedium, wire.KindBulk, wire.KindClear}
		if rapid.Bool().Draw(rt, "short") {
			kinds = []wire.Kind{wire.KindShort, wire.KindClear}
		}
		var l load
		for i := range ch.sends {
			b := &ch.sends[i]
			b.mem = mem[i*s.Full():][:s.Full()]
			b.n = drawSend(rt, b.mem, i, s.Medium, rapid.SampledFrom(kinds).Draw(rt, "kind"))
			if i > 0 && rapid.IntRange(0, 9).Draw(rt, "skip") == 0 {
				continue // its slot is not free
			}
			if !ch.addMessage(&l, i) {
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
			if wire.Rounded(b.n) <= ch.room/2 {
				short += wire.Rounded(b.n)
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
		if len(x.desc.Segs) > l.pieces || l.pieces > piecesMost || len(sent) > BatchSize || l.count != len(x.members) || l.count > provider.CoalesceMost {
			rt.Fatalf("%d messages, %d bytes, in %d pieces: %+v", len(x.members), len(sent), len(x.desc.Segs), l)
		}
		var last wire.LastTags
		for _, i := range x.members {
			m, rest, ok := wire.SplitNext(sent, ch.full)
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
	s := wire.Shape{Slots: slots, Medium: 4096}
	mem := make([]byte, slots*s.Full())
	ch := &channel{sends: make([]sendBuffer, slots), full: s.Full(), room: envelopeSize}
	ch.batching.out = make([]batchBuffer, 2)
	x := &batchBuffer{}
	var l load
	for i := range ch.sends {
		b := &ch.sends[(i+5)%slots]
		b.mem = mem[(i+5)%slots*s.Full():][:s.Full()]
		h := wire.Header{Kind: wire.KindMedium}
		if b.n = h.Put(b.mem) + 4096; ch.addMessage(&l, (i+5)%slots) {
			x.members = append(x.members, (i+5)%slots)
		}
	}
	if ch.compose(x); len(x.members) != 15 || len(x.desc.Segs) != 2 || l.pieces != 2 {
		t.Errorf("%d messages in %d pieces, want 15 in 2: %+v", len(x.members), len(x.desc.Segs), l)
	}
}

// drawSend builds a message in b and returns its length.
func drawSend(rt *rapid.T, b []byte, i, medium int, k wire.Kind) int {
	h := wire.Header{Kind: k, Slot: uint16(i), Use: 7, Tag: wire.Tag(rapid.IntRange(1, 2).Draw(rt, "tag")), ReplyTag: 5}
	args := make([]uint32, rapid.IntRange(0, wire.MaxArgs).Draw(rt, "args"))
	h.Args = uint8(len(args))
	n := wire.PutArgs(b, h.Put(b), args)
	size := 0
	if h.Kind == wire.KindMedium || h.Kind == wire.KindBulk {
		size = rapid.IntRange(0, medium).Draw(rt, "size")
	}
	for k := range b[n:][:size] {
		b[n+k] = byte(i + k)
	}
	return n + size
}

// compareMessage wants the message m to be what x holds.
func compareMessage(rt *rapid.T, x *sendBuffer, m []byte, last *wire.LastTags) {
	var want, got wire.Header
	wantBody, _ := want.Parse(x.mem[:x.n], nil)
	gotBody, ok := got.Parse(m, last)
	if !ok || got != want || !bytes.Equal(gotBody, wantBody) {
		rt.Fatalf("%+v with %d bytes, want %+v with %d", got, len(gotBody), want, len(wantBody))
	}
}

// TestStuck: what waits for a window goes on when it has been answered, and the
// provider knows that what was written to it has arrived, in whatever order.
func TestStuck(t *testing.T) {
	for name, last := range map[string]func(ch *channel, x *sendBuffer){
		"answered": func(ch *channel, x *sendBuffer) { ch.landed(x); ch.heard(3) },
		"arrived":  func(ch *channel, x *sendBuffer) { ch.heard(3); ch.landed(x) },
	} {
		t.Run(name, func(t *testing.T) {
			ch := &channel{way: &Provider{count: &provider.Corked{}}, up: noHalf{}, sends: make([]sendBuffer, 8), room: envelopeSize}
			b := &ch.batching
			b.out, b.ends = make([]batchBuffer, 2), make([]bool, 4)
			x := &b.out[0].sendBuffer
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
	ch := &channel{way: &Provider{count: &provider.Corked{}}, sends: make([]sendBuffer, 8), room: envelopeSize}
	ch.batching.out, ch.batching.ends, ch.batching.credit = make([]batchBuffer, 2), make([]bool, 4), 1
	ch.batching.out[0].busy = true
	ch.corking.waiting, ch.corking.stuck = []int{1}, true
	if ch.resume(); !ch.corking.stuck {
		t.Error("it goes on although it is not known that what was written before has arrived")
	}
}

// noHalf is a half that does nothing with what it is told.
type noHalf struct{}

func (noHalf) Received(*provider.Packet)       {}
func (noHalf) HandleNow(*provider.Packet) bool { return false }
func (noHalf) Placed(int)                      {}
func (noHalf) Wrote(int)                       {}
func (noHalf) Undelivered(int, wire.Reason)    {}
func (noHalf) Sent()                           {}
func (noHalf) Broken(wire.Reason, error)       {}

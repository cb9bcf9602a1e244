package seal

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// memory is a link whose frames are a list. Of each it gives the beginning, and the rest
// when it is fetched.
type memory struct {
	transport.Link
	info    transport.Info
	now     int64
	sent    func(frame []byte)
	arrived [][]byte
	frame   []byte // that was received last
	first   int    // bytes of a frame that are given at once; 0: 200
}

func (l *memory) Info() transport.Info     { return l.info }
func (l *memory) Now() int64               { l.now += 1000; return l.now }
func (l *memory) Wait(int64) error         { return nil }
func (l *memory) Close() error             { return nil }
func (l *memory) StartLong() bool          { return true }
func (l *memory) ReceiveLong(on bool) bool { return on }
func (l *memory) Cut() bool                { return false }
func (l *memory) Rest() int                { return max(0, len(l.frame)-l.most()) }
func (l *memory) most() int                { return cmp.Or(l.first, 200) }

func (l *memory) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		l.sent(frames[i].AppendTo(nil))
	}
	return len(frames), nil
}

func (l *memory) Recv(views [][]byte) (int, error) {
	if l.frame = nil; len(l.arrived) == 0 {
		return 0, nil
	}
	l.frame, l.arrived = l.arrived[0], l.arrived[1:]
	views[0] = l.frame[:min(len(l.frame), l.most())]
	return 1, nil
}

func (l *memory) Fetch(from int, parts [][]byte) bool {
	return copy(parts[0], l.frame[from:]) == len(parts[0])
}

// longPair returns two links to each other that carry long frames, with a session.
func longPair(t testing.TB, opts Options) (a, b *Link, from, to *memory) {
	t.Helper()
	if a, b, from, to = longLinks(t, opts); !Meet(a, b) {
		t.Fatal("no session")
	}
	return a, b, from, to
}

// longLinks is longPair without a session.
func longLinks(t testing.TB, opts Options) (a, b *Link, from, to *memory) {
	t.Helper()
	link := func(n byte) (*Link, *memory) {
		m := &memory{info: transport.Info{MAC: ethertype.MAC{2, 5: n}, EtherType: ethertype.Default, MTU: 1500, Virtual: true,
			Ports: transport.PortRange{Lo: 1024, Hi: 2047}}}
		opts.Keys = Fixed(keyOf(1))
		l, err := New(m, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.(*Link), m
	}
	a, from = link(1)
	b, to = link(2)
	from.sent = func(f []byte) { to.arrived = append(to.arrived, f) }
	to.sent = func(f []byte) { from.arrived = append(from.arrived, f) }
	if !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
		t.Fatal("no long frames")
	}
	return a, b, from, to
}

// longFrame returns a frame from a to b of which body lies apart.
func longFrame(a, b *Link, body []byte) transport.Frame {
	h := ethertype.Header{Dst: b.m.self, Src: a.m.self, Type: ethertype.Default, Kind: ethertype.KindEcho, DstPort: 1024, SrcPort: 1024, Size: uint16(len(body))}
	head := make([]byte, ethertype.HeaderSize)
	h.Put(head)
	ethertype.Seal(head, body)
	return transport.Frame{Head: head, Body: [][]byte{body}}
}

// pattern returns n bytes.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// sentBy returns what a sends for f, which goes nowhere else.
func sentBy(t testing.TB, a *Link, from *memory, f transport.Frame) []byte {
	t.Helper()
	var sent [][]byte
	from.sent = func(f []byte) { sent = append(sent, f) }
	if n, err := a.Send([]transport.Frame{f}); n != 1 || err != nil || len(sent) != 1 {
		t.Fatal(n, err, len(sent))
	}
	return sent[0]
}

// waysToReceive is how much of a long frame the link within gives at once: so much that it can be opened
// in two parts, or so little that it has to be fetched before it is opened, or all of it.
var waysToReceive = map[string]int{"in parts": 200, "little": framing.SealedRest - 1, "whole": 1 << 20}

// TestLongChanged: of a long frame that was changed nothing is passed on, or its beginning alone
// and zeros, wherever it was changed; nor is the frame taken again. It is the same if the link
// within gives all of it, or so little that it has to be fetched before it can be opened.
func TestLongChanged(t *testing.T) {
	for name, first := range waysToReceive {
		t.Run(name, func(t *testing.T) {
			a, b, from, to := longPair(t, Options{})
			to.first = first
			views := make([][]byte, transport.MaxBatch)
			f := longFrame(a, b, pattern(30_000))
			want := f.AppendTo(nil)
			places := []int{framing.OffsetSrc + 5, framing.OffsetKind, framing.OffsetSrcPort, framing.SealedSession, framing.SealedCounter, framing.SealedBody + 2, framing.SealedRest - 1}
			rests := []int{framing.SealedRest, 9000, len(want) + framing.SealOverhead, len(want) + framing.SealOverhead + framing.SealLongMore - 1}
			for i, at := range append(places, rests...) {
				for bit := range 8 {
					genuine := sentBy(t, a, from, f)
					forged := bytes.Clone(genuine)
					forged[at] ^= 1 << bit
					before := b.SealStats()
					to.arrived = append(to.arrived, forged)
					n, err := b.Recv(views)
					got := pattern(len(want) - ethertype.HeaderSize)
					if n == 1 && (i < len(places) || first != 200 || b.Fetch(ethertype.HeaderSize, [][]byte{got})) {
						t.Fatalf("bit %d of byte %d changed, and the frame was taken", bit, at)
					}
					if after := b.SealStats(); err != nil || after.Dropped() != before.Dropped()+1 || b.Rest() != 0 {
						t.Fatalf("bit %d of byte %d changed: %d, %v, %+v", bit, at, n, err, after)
					}
				}
			}
			genuine := sentBy(t, a, from, f)
			to.arrived = append(to.arrived, genuine, bytes.Clone(genuine))
			if n, err := b.Recv(views); n != 1 || err != nil || b.Rest() != len(want)-len(views[0]) {
				t.Fatal(n, err, b.Rest())
			}
			got := make([]byte, len(want)-ethertype.HeaderSize)
			if !b.Fetch(ethertype.HeaderSize, [][]byte{got}) || !bytes.Equal(append(views[0][:ethertype.HeaderSize:ethertype.HeaderSize], got...), want) {
				t.Error("what arrived is not what was sent")
			}
			if n, _ := b.Recv(views); n != 0 || b.m.count.stats().Replayed != 1 {
				t.Error("the frame was taken twice")
			}
		})
	}
}

// TestLongParts: the parts of two frames are no frame, nor is a part of one in place of the
// other, though all of them are genuine.
func TestLongParts(t *testing.T) {
	a, b, from, to := longPair(t, Options{})
	f := longFrame(a, b, pattern(30_000))
	one, other := sentBy(t, a, from, f), sentBy(t, a, from, f)
	views := make([][]byte, transport.MaxBatch)
	to.arrived = [][]byte{append(bytes.Clone(one[:framing.SealedRest]), other[framing.SealedRest:]...)}
	got := [][]byte{make([]byte, 30_000)}
	if n, _ := b.Recv(views); n != 1 || b.Fetch(ethertype.HeaderSize, got) || b.SealStats().Altered != 1 {
		t.Error("two halves were taken for a frame")
	}
	short := bytes.Clone(other[:framing.SealedRest])
	short[framing.OffsetKind] = uint8(framing.KindSealed)
	to.arrived = [][]byte{short}
	if n, _ := b.Recv(views); n != 0 || b.SealStats().Altered != 2 {
		t.Error("the beginning was taken for a frame")
	}
}

// TestLongStraight: the data of a receive and of an RDMA read are decrypted to where they belong,
// and those that anybody may see before they are judged are not.
func TestLongStraight(t *testing.T) {
	for kind, straight := range map[ethertype.Kind]bool{ethertype.KindData: true, ethertype.KindReadData: true, ethertype.KindRDMAWrite: false, ethertype.KindEcho: false} {
		a, b, from, to := longPair(t, Options{})
		f := longFrame(a, b, pattern(30_000))
		f.Head[framing.OffsetKind] = uint8(kind)
		forged := sentBy(t, a, from, f)
		forged[len(forged)-1] ^= 1
		to.arrived = [][]byte{forged}
		views, got := make([][]byte, transport.MaxBatch), bytes.Repeat([]byte{7}, 30_000)
		n, _ := b.Recv(views)
		if n != 1 || b.Fetch(ethertype.HeaderSize, [][]byte{got}) {
			t.Fatalf("%v: %d frames, and it was fetched", kind, n)
		}
		if touched := bytes.Count(got, []byte{7}) < len(got); touched != straight {
			t.Errorf("%v: what is not genuine was where it belongs: %v, want %v", kind, touched, straight)
		}
	}
}

// TestLongBodies: a long frame arrives as it was sent, whatever pieces it is in, and wherever
// it goes.
func TestLongBodies(t *testing.T) {
	a, b, from, to := longPair(t, Options{})
	body := pattern(20_000)
	want := longFrame(a, b, body)
	plain := want.AppendTo(nil)
	views := make([][]byte, transport.MaxBatch)
	for _, cuts := range [][]int{nil, {1}, {79}, {80}, {81}, {80, 80}, {79, 80, 81}, {10, 80, 9000}, {0}, {20_000}} {
		f := transport.Frame{Head: want.Head}
		at := 0
		for _, c := range append(cuts, len(body)) {
			f.Body, at = append(f.Body, body[at:c]), c
		}
		for _, to2 := range [][]int{nil, {80}, {5, 100}, {20_000}} {
			to.arrived = [][]byte{sentBy(t, a, from, f)}
			got := make([]byte, len(body))
			var parts [][]byte
			at := 0
			for _, c := range append(to2, len(got)) {
				parts, at = append(parts, got[at:c]), c
			}
			if n, _ := b.Recv(views); n != 1 || !bytes.Equal(views[0], plain[:len(views[0])]) || !b.Fetch(ethertype.HeaderSize, parts) || !bytes.Equal(got, body) {
				t.Fatalf("sent in pieces that end at %v, to parts that end at %v: not what was sent", cuts, to2)
			}
		}
	}
}

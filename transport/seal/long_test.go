package seal

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
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
	frame   []byte   // that was received last
	fetched [][]byte // to where the last one was
}

func (l *memory) Info() transport.Info { return l.info }
func (l *memory) Now() int64           { l.now += 1000; return l.now }
func (l *memory) Wait(int64) error     { return nil }
func (l *memory) Close() error         { return nil }
func (l *memory) StartLong() bool      { return true }
func (l *memory) Rest() int            { return max(0, len(l.frame)-200) }

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
	views[0] = l.frame[:min(len(l.frame), 200)]
	return 1, nil
}

func (l *memory) Fetch(from int, parts [][]byte) bool {
	l.fetched = parts
	return copy(parts[0], l.frame[from:]) == len(parts[0])
}

// longPair returns two links to each other that carry long frames, with a session.
func longPair(t *testing.T, opts Options) (a, b *Link, from, to *memory) {
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
	if !a.StartLong() || !b.StartLong() || !Meet(a, b) {
		t.Fatal("no session")
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

// TestLongInPlace: a long frame is opened where it was fetched to, and nothing of one that
// was changed is passed on, whatever kind it says it is.
func TestLongInPlace(t *testing.T) {
	a, b, from, to := longPair(t, Options{})
	views, sent := make([][]byte, transport.MaxBatch), [][]byte(nil)
	from.sent = func(f []byte) { sent = append(sent, f) }
	f := longFrame(a, b, pattern(30_000))
	want := f.AppendTo(nil)
	if n, err := a.Send([]transport.Frame{f}); n != 1 || err != nil || len(sent) != 1 {
		t.Fatal(n, err, len(sent))
	}
	genuine := sent[0]
	for _, at := range []int{ethertype.OffsetSrc + 5, ethertype.OffsetKind, ethertype.OffsetSrcPort, ethertype.SealedSession, ethertype.SealedCounter, ethertype.SealedBody + 2, 150, 9000, len(genuine) - 1} {
		for bit := range 8 {
			forged := bytes.Clone(genuine)
			forged[at] ^= 1 << bit
			before := b.SealStats()
			to.arrived = append(to.arrived, forged)
			n, err := b.Recv(views)
			if after := b.SealStats(); n != 0 || err != nil || after.Dropped() != before.Dropped()+1 {
				t.Fatalf("bit %d of byte %d changed: %d, %v, %+v", bit, at, n, err, after)
			}
		}
	}
	to.arrived = append(to.arrived, genuine, bytes.Clone(genuine))
	if n, err := b.Recv(views); n != 1 || err != nil || b.Rest() != len(want)-len(views[0]) {
		t.Fatal(n, err, b.Rest())
	}
	room, start := to.fetched[0], ethertype.SealedBody+ethertype.BaseSize // of the data in the frame
	if &views[0][ethertype.HeaderSize] != &room[start-ethertype.HeaderSize] {
		t.Error("the frame was moved when it was opened")
	}
	got := make([]byte, len(want)-ethertype.HeaderSize)
	if !b.Fetch(ethertype.HeaderSize, [][]byte{got}) || !bytes.Equal(append(views[0][:ethertype.HeaderSize:ethertype.HeaderSize], got...), want) {
		t.Error("what arrived is not what was sent")
	}
	if n, _ := b.Recv(views); n != 0 || b.m.count.stats().Replayed != 1 {
		t.Error("the frame was taken twice")
	}
}

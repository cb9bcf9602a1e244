package vipl_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/trace"
	"github.com/bobnet-go/bobnet/vipl"
)

// newLongDuo is a duo whose links carry long frames, unless they are opaque.
func newLongDuo(t testing.TB, opaque [2]bool, attr *vipl.Attributes) *duo {
	d := &duo{t: t}
	for i := range d.long {
		d.long[i] = newLongLink(nil)
		d.long[i].opaque = opaque[i]
	}
	return d.set(attr, attr)
}

// exchange has b send a message of every kind and length to a and read one from
// it, if it may, and checks them.
func (d *duo) exchange(sizes ...int) {
	d.t.Helper()
	const room = 20_000
	allow := &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
	in, inH := d.buffer(d.na, room, allow)
	out, outH := d.buffer(d.nb, room, nil)
	for i, size := range sizes {
		content(uint64(i), size, out)
		clear(in)
		cut := size / 3
		r := &vipl.Descriptor{Segs: []vipl.Segment{{Data: in[:cut], Handle: inH}, {Data: in[cut:], Handle: inH}}}
		s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: out[:size], Handle: outH}}, HasImmediate: i%2 == 0, Immediate: uint32(i)}
		if i%3 > 0 {
			s.Op, s.HasImmediate = vipl.OpRDMAWrite, true
			s.Remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(in), Handle: inH}
		}
		if err := d.a.PostRecv(r); err != nil {
			d.t.Fatal(err)
		}
		if err := d.b.PostSend(s); err != nil {
			d.t.Fatal(err)
		}
		d.run()
		if got, err := d.a.RecvDone(); got != r || err != nil || !bytes.Equal(in[:size], out[:size]) || len(bytes.Trim(in[size:], "\x00")) > 0 {
			d.t.Fatalf("%d bytes, op %v: %v, %v, intact %v", size, s.Op, got, err, bytes.Equal(in[:size], out[:size]))
		}
		if got, err := d.b.SendDone(); got != s || err != nil {
			d.t.Fatal(got, err)
		}
		if !d.b.Query().Attributes.EnableRDMARead {
			continue
		}
		clear(out)
		read := &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: s.Segs, Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(in), Handle: inH}}
		if err := d.b.PostSend(read); err != nil {
			d.t.Fatal(err)
		}
		d.run()
		if got, err := d.b.SendDone(); got != read || err != nil || !bytes.Equal(in[:size], out[:size]) {
			d.t.Fatalf("read of %d bytes: %v, %v", size, got, err)
		}
	}
}

// openTo are attributes that allow everything.
func openTo(level reliability.Level) *vipl.Attributes {
	return &vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable()}
}

var longSizes = []int{0, 1, 500, 552, 553, 1000, 1451, 1452, 1453, 3000, 20_000, 7, 20_000}

// TestLongFrames: where the path carries long frames, both sides send them soon after
// the first message that does not fit a frame, and their data go straight to where they belong. Short messages do not
// make a link receive them.
func TestLongFrames(t *testing.T) {
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			d := newLongDuo(t, [2]bool{}, openTo(level))
			if d.exchange(0, 1, 500); d.long[0].receives || d.long[1].receives || d.a.Wide() || d.b.Wide() {
				t.Error("a link receives long frames before they are needed:", d.long[0].receives, d.long[1].receives)
			}
			d.exchange(longSizes...)
			if !d.a.Wide() || !d.b.Wide() {
				t.Error("afterwards:", d.a.Wide(), d.b.Wide())
			}
			for i, n := range []*vipl.NIC{d.na, d.nb} {
				if n.Fetched() < 10 {
					t.Errorf("side %d: %d frames went straight to where they belong", i, n.Fetched())
				}
			}
		})
	}
}

// TestLongNot: where one direction does not carry long frames, or one side has none,
// or the level is the unreliable one, nobody sends any, and connecting takes no
// longer than it does otherwise.
func TestLongNot(t *testing.T) {
	for _, test := range []struct {
		name   string
		opaque [2]bool
		have   [2]bool
		level  reliability.Level
	}{
		{"Opaque", [2]bool{true, true}, [2]bool{true, true}, reliability.ReliableDelivery},
		{"OpaqueToServer", [2]bool{false, true}, [2]bool{true, true}, reliability.ReliableDelivery},
		{"OpaqueToClient", [2]bool{true, false}, [2]bool{true, true}, reliability.ReliableDelivery},
		{"NoneAtServer", [2]bool{}, [2]bool{false, true}, reliability.ReliableDelivery},
		{"NoneAtClient", [2]bool{}, [2]bool{true, false}, reliability.ReliableDelivery},
		{"Unreliable", [2]bool{}, [2]bool{true, true}, reliability.Unreliable},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &duo{t: t}
			for i := range d.long {
				if test.have[i] {
					d.long[i] = newLongLink(nil)
					d.long[i].opaque = test.opaque[i]
				}
			}
			d.set(openTo(test.level), openTo(test.level))
			start := *d.links[0].clock
			if d.connectAgain(); *d.links[0].clock-start > int64(2*time.Millisecond) {
				t.Errorf("connecting took %v", time.Duration(*d.links[0].clock-start))
			}
			if test.level.Reliable() {
				d.exchange(longSizes...)
			}
			if d.a.Wide() || d.b.Wide() {
				t.Error("long frames are sent:", d.a.Wide(), d.b.Wide())
			}
		})
	}
}

// TestSlots: on a link that gives only the beginning of plain frames the data of all go straight to
// where they belong, but on the unreliable level, or are fetched whole first; also where some are lost
// when they are fetched.
func TestSlots(t *testing.T) {
	for _, level := range append([]reliability.Level{reliability.Unreliable}, reliableLevels...) {
		t.Run(level.String(), func(t *testing.T) {
			d := &duo{t: t}
			for i := range d.long {
				d.long[i] = newSlotLink(nil)
			}
			d.set(openTo(level), openTo(level))
			d.exchange(longSizes...)
			if d.a.Wide() || d.b.Wide() {
				t.Error("long frames are sent")
			}
			for i, n := range []*vipl.NIC{d.na, d.nb} {
				if straight := n.Fetched() >= 10; straight != level.Reliable() || i == 0 && d.long[i].fetched < 10 {
					t.Errorf("side %d: %d of %d frames went straight to where they belong", i, n.Fetched(), d.long[i].fetched)
				}
			}
			if level.Reliable() {
				d.long[0].clumsy, d.long[1].clumsy, d.patience = 5, 5, 40
				d.exchange(longSizes...)
			}
		})
	}
}

// connectAgain ends the connection and makes another.
func (d *duo) connectAgain() {
	d.t.Helper()
	for _, v := range []*vipl.VI{d.a, d.b} {
		if err := v.Disconnect(); err != nil {
			d.t.Fatal(err)
		}
		d.run()
	}
	d.connect()
}

// TestLongReconnect: what a path carries is found out anew for each connection.
func TestLongReconnect(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, openTo(reliability.ReliableDelivery))
	d.exchange(3000)
	for i := range 4 {
		opaque := i%2 == 0
		d.long[0].opaque, d.long[1].opaque = opaque, opaque
		d.connectAgain()
		if d.exchange(3000); d.a.Wide() == opaque || d.b.Wide() == opaque {
			t.Fatalf("round %d, opaque %v: %v %v", i, opaque, d.a.Wide(), d.b.Wide())
		}
	}
}

// TestLongLost loses frames at the moment that they are fetched: they are sent
// again, and what had been written in vain does not show.
func TestLongLost(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, openTo(reliability.ReliableReception))
	for i := range d.long {
		d.long[i].clumsy = 5
	}
	sizes := longSizes
	for range 5 {
		sizes = append(sizes, longSizes...)
	}
	d.patience = 40
	d.exchange(sizes...)
	if d.long[0].fetched < 100 || !d.a.Wide() {
		t.Error(d.long[0].fetched, "frames fetched")
	}
}

// TestLongVeth: on the ends of a veth pair long frames are the default. Messages
// arrive intact, packed ones as well, in far fewer frames than the MTU takes.
func TestLongVeth(t *testing.T) {
	for _, choice := range []ring.Choice{ring.Auto, ring.Off} {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			nics := vethNICs(t, 1500, vipl.Config{Long: choice}, nil)
			for _, level := range reliableLevels {
				a, b := join(t, nics, openTo(level))
				before := nics[0].Snapshot().RxFrames + nics[1].Snapshot().RxFrames
				const long, short = 30, 2000
				flows := []*flow{newFlow(t, a, b, long, 1<<20, 1), newFlow(t, b, a, long, 1<<20, 2)}
				within(t, "long messages", func() error {
					return all(flows[0].send, flows[0].receive, flows[1].send, flows[1].receive)
				})
				frames := nics[0].Snapshot().RxFrames + nics[1].Snapshot().RxFrames - before
				for _, n := range nics {
					if wide := n.Snapshot().VIs[0].FrameData > 1500; wide != (choice == ring.Auto) {
						t.Errorf("%v: the snapshot shows frames of %d bytes", level, n.Snapshot().VIs[0].FrameData)
					}
				}
				if least := uint64(2 * long << 20 / 65536); (frames < 5*least) != (choice == ring.Auto) {
					t.Errorf("%v: %d frames for %d MiB", level, frames, 2*long)
				}
				c, e := join(t, nics, openTo(level))
				packed := newFlow(t, c, e, short, 3000, 3)
				within(t, "packed messages", func() error { return all(packed.send, packed.receive) })
			}
		})
	}
}

// TestLongLoose: a long frame to a VI of the unreliable level, which no peer of ours
// sends, is received as any other.
func TestLongLoose(t *testing.T) {
	f := &forger{duo: newLongDuo(t, [2]bool{}, openTo(reliability.Unreliable))}
	f.long[0].ReceiveLong(true) // for other VIs
	l := f.links[0]
	f.send(f.b, 8)
	if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
		t.Fatal(err)
	}
	f.run()
	for i := range 3 {
		in, out := f.post(f.a, 1000), make([]byte, 1000)
		content(uint64(i), 0, out)
		f.forge(ethertype.Header{Kind: ethertype.KindData, Flags: ethertype.FlagLast, Msg: f.like.Msg + 1, Length: 1000}, out)
		f.like.Msg++
		if d, err := f.a.RecvDone(); d != in || err != nil || !bytes.Equal(in.Segs[0].Data, out) {
			t.Fatalf("message %d: %v, %v", i, d, err)
		}
	}
}

// TestLongWriteBegun: a side that learns in the middle of an RDMA write that the path
// carries long frames sends the rest as it has begun, because the peer tells by the
// length of a fragment which one it is.
func TestLongWriteBegun(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, openTo(reliability.ReliableDelivery))
	region, at := d.source(d.nb, 1, 20_000)
	out, h := d.buffer(d.na, len(region), nil)
	content(2, 2, out)
	l := d.links[1]
	from := l.tail
	s := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Remote: at, Segs: []vipl.Segment{{Data: out, Handle: h}}}
	if err := d.a.PostSend(s); err != nil {
		t.Fatal(err)
	}
	if d.a.Wide() {
		t.Fatal("the server knows already")
	}
	d.run()
	if got, err := d.a.SendDone(); got != s || err != nil || !bytes.Equal(region, out) {
		t.Fatalf("%v, %v", got, err)
	}
	first, frames := 0, 0
	for i := from; i < l.tail; i++ {
		var f ethertype.Header
		if _, err := f.Parse(l.slots[i%memSlots][:l.lens[i%memSlots]]); err != nil || f.Kind != ethertype.KindRDMAWrite {
			continue
		}
		if frames++; f.Offset == 0 {
			first = int(f.Size)
		} else if int(f.Size) != first && f.Flags&ethertype.FlagLast == 0 {
			t.Errorf("a fragment of %d bytes behind one of %d", f.Size, first)
		}
	}
	if frames < 20_000/shortMTU {
		t.Errorf("%d fragments", frames)
	}
	d.exchange(3000)
	if !d.a.Wide() {
		t.Error("the next message does not go in long frames")
	}
}

// TestLongNoAllocations sends messages in long frames, of each way that they can be
// received, without allocating.
func TestLongNoAllocations(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{NoService: true}, nil)
	a, b := join(t, nics, openTo(reliability.ReliableDelivery))
	const count = 4 // sent at once, so that those that fit share a frame
	for _, size := range []int{100_000, 3000} {
		in, err := newBuffers(nics[1], count, size)
		if err != nil {
			t.Fatal(err)
		}
		out, err := newBuffers(nics[0], count, size)
		if err != nil {
			t.Fatal(err)
		}
		round := func() {
			for i := range count {
				if err := errors.Join(b.PostRecv(&in.descs[i]), a.PostSend(&out.descs[i])); err != nil {
					t.Fatal(err)
				}
			}
			end := nics[0].Now() + int64(10*time.Second)
			for got, sent := 0, 0; got+sent < 2*count; {
				if nics[0].Now() > end {
					t.Fatalf("%d of %d messages have arrived", got, count)
				}
				nics[0].Poll()
				nics[1].Poll()
				if d, _ := b.RecvDone(); d != nil {
					got++
				}
				if d, _ := a.SendDone(); d != nil {
					sent++
				}
			}
		}
		round() // after which both sides know the path
		before := nics[1].Snapshot().RxFrames
		if n := testing.AllocsPerRun(100, round); n != 0 {
			t.Errorf("%v allocations for %d messages of %d bytes", n, count, size)
		}
		if frames := nics[1].Snapshot().RxFrames - before; frames > 100*uint64(count*size/1500) {
			t.Errorf("%d frames: the messages did not go in long ones", frames)
		}
	}
}

// longLink makes any link a transport.LongLink, so that long frames are tested in
// virtual time too: it says that the link's MTU is smaller than it is.
type longLink struct {
	transport.Link
	mtu               int  // what it says
	opaque            bool // long frames do not get through
	clumsy            int  // each clumsy-th frame is lost when it is fetched; 0: none
	slot              int  // if not 0, there are no long frames, and of others that are longer only as much is given
	fetched           int
	lost              int // long frames that were sent and did not get through
	started, receives bool
	slow              int64 // ns for which it does not yet receive long frames after it has ended to and is told to again
	ended             bool
	begins            int64 // when it will
	cut               bool  // long frames arrive in segments
	views             [transport.MaxBatch][]byte
	queue             [][]byte
	rest              []byte // what the last view lacks
	last              []byte // the last frame, whole, if it is a long one
}

// longMTU and shortMTU are those of worlds with such links.
const (
	longMTU  = 1500
	shortMTU = 600
)

func newLongLink(l transport.Link) *longLink { return &longLink{Link: l, mtu: shortMTU} }

// newSlotLink returns a link of which all but the beginning of plain frames is to be fetched, as on a
// ring whose MTU is larger than its slots.
func newSlotLink(l transport.Link) *longLink { return &longLink{Link: l, mtu: longMTU, slot: 200} }

func (l *longLink) Info() transport.Info {
	info := l.Link.Info()
	info.MTU = l.mtu
	return info
}

func (l *longLink) StartLong() bool {
	l.started = l.slot == 0
	return l.started
}

func (l *longLink) ReceiveLong(on bool) bool {
	switch {
	case !on:
		l.ended, l.begins = l.started, 0
	case l.ended && l.begins == 0:
		l.begins = l.Now() + l.slow
	}
	l.receives = on && l.started && l.Now() >= l.begins
	return l.receives
}

func (l *longLink) short(f int) bool { return f <= l.mtu+ethertype.EthernetSize }

func (l *longLink) Send(frames []transport.Frame) (n int, err error) {
	for n < len(frames) {
		switch size := frames[n].Len(); {
		case l.short(size):
		case !l.started:
			return n, transport.ErrFrameSize
		case l.opaque:
			l.lost++
			n++
			continue
		}
		k, err := l.Link.Send(frames[n : n+1])
		if k == 0 || err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (l *longLink) Recv(views [][]byte) (int, error) {
	l.rest, l.last = nil, nil
	n, err := l.Link.Recv(l.views[:])
	for _, f := range l.views[:n] {
		if l.slot > 0 || l.short(len(f)) || l.receives {
			l.queue = append(l.queue, bytes.Clone(f))
		}
	}
	n = 0
	for n < min(len(views), transport.MaxBatch) && len(l.queue) > 0 && l.rest == nil {
		f := l.queue[0]
		l.queue = l.queue[1:]
		views[n] = f
		begin := cmp.Or(l.slot, transport.LongBegin)
		if l.slot == 0 && !l.short(len(f)) || l.slot > 0 && len(f) > begin {
			views[n], l.rest, l.last = f[:begin], f[begin:], f
		}
		n++
	}
	return n, err
}

func (l *longLink) Rest() int { return len(l.rest) }

func (l *longLink) Cut() bool { return l.cut }

func (l *longLink) Fetch(from int, parts [][]byte) bool {
	if l.rest == nil || from < ethertype.HeaderSize || from > len(l.last)-len(l.rest) {
		panic(fmt.Sprintf("Fetch from %d of a frame that lacks %d bytes", from, len(l.rest)))
	}
	f := l.last[from:]
	l.rest = nil
	if l.fetched++; l.clumsy > 0 && l.fetched%l.clumsy == 0 {
		for _, part := range parts {
			clear(part)
		}
		return false
	}
	for _, part := range parts {
		if copy(part, f) < len(part) {
			return false
		}
		f = f[len(part):]
	}
	return true
}

func (l *longLink) Ready() bool { return len(l.queue) > 0 || l.Link.Ready() }

func (l *longLink) Wait(until int64) error {
	if len(l.queue) > 0 {
		return nil
	}
	return l.Link.Wait(until)
}

// TestLongSmallerMTU: long frames are those that the link's MTU does not allow. Where
// the path's is smaller, because an interface's was made smaller under the NICs or was
// from the beginning, messages of lengths between both arrive like all others.
func TestLongSmallerMTU(t *testing.T) {
	for _, test := range []struct {
		name       string
		open, then [2]int // MTUs when the NICs are opened, and afterwards
	}{
		{"Both", [2]int{9000, 9000}, [2]int{600, 600}},
		{"First", [2]int{9000, 600}, [2]int{9000, 600}},
		{"Second", [2]int{600, 9000}, [2]int{600, 9000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := vethtest.New(t, 9000)
			var nics [2]*vipl.NIC
			for side := range nics {
				if err := p.SetMTU(side, test.open[side]); err != nil {
					t.Fatal(err)
				}
			}
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name})
			}
			for side := range nics {
				if err := p.SetMTU(side, test.then[side]); err != nil {
					t.Fatal(err)
				}
			}
			for i, size := range []int{500, 700, 3000, 8900, 9100, 70_000} {
				a, b := join(t, nics, openTo(reliability.ReliableDelivery))
				there, back := newFlow(t, a, b, 4, size, uint64(i)), newFlow(t, b, a, 4, size, uint64(i))
				within(t, "messages", func() error { return all(there.send, there.receive, back.send, back.receive) })
			}
		})
	}
}

// TestFaultyLong sends 100 MB each way at the same time in long frames, the default
// on veth, while 2 % of the frames are lost, doubled and reordered each, between
// NICs of which one has the faults on its way in.
func TestFaultyLong(t *testing.T) {
	const size = 1 << 20
	count := 96
	if !need.Full() {
		count = 8
	}
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			o := fault.Options{Drop: 0.02, Dup: 0.02, Reorder: 0.02}
			nics := vethNICs(t, 1500, vipl.Config{}, func(side int, l transport.Link) transport.Link {
				o := o
				o.Seed = uint64(side) + 1
				if side == 1 {
					o.Dir = fault.Both
				}
				return fault.New(l, o)
			})
			a, b := join(t, nics, &vipl.Attributes{Reliability: level})
			widen(t, a, b)
			there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
			within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
			if t.Failed() {
				return
			}
			least := uint64(count * size / framing.LongMTU / 2)
			for side, v := range []*vipl.VI{a, b} {
				if n := nics[side].Fetched(); !v.Wide() || n < least {
					t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t", side, n, least, v.Wide())
				}
				if v.Snapshot().Retransmits == 0 || nics[side].Snapshot().Link.Faults == 0 {
					t.Errorf("side %d has sent nothing again: there were no faults", side)
				}
			}
		})
	}
}

// widen exchanges messages until both sides know that the path carries long frames. Faults can lose the
// probes that ask, which go again.
func widen(t *testing.T, a, b *vipl.VI) {
	within(t, "a probe as long as a long frame", func() error {
		for !a.Wide() || !b.Wide() {
			if err := errors.Join(oneByOne(a, b, 1, 20_000), oneByOne(b, a, 1, 20_000)); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestCorruptLong: a link that corrupts frames, though it has long ones, gives the NIC
// none: their CRC leaves the data out.
func TestCorruptLong(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{}, func(_ int, l transport.Link) transport.Link {
		return fault.New(l, fault.Options{Seed: 1, Corrupt: 0.02})
	})
	a, b := join(t, nics, nil)
	there := newFlow(t, a, b, 4, 1<<20, 1)
	within(t, "the transfer", func() error { return all(there.send, there.receive) })
	if a.Wide() || b.Wide() || nics[1].Fetched() > 0 {
		t.Error("long frames are sent:", a.Wide(), b.Wide())
	}
}

// TestSealedLong: sealed, long frames are used on links that corrupt them, too: those that were changed
// count as lost, whether the data are decrypted to where they belong at once (side 0), or the link within
// gives so little of a frame that all of it is fetched first (side 1).
func TestSealedLong(t *testing.T) {
	const count, size = 24, 1 << 20
	nics := vethNICs(t, 1500, vipl.Config{Key: seal.Fixed(sealKey(1))}, func(side int, l transport.Link) transport.Link {
		o := fault.Options{Drop: 0.01, Dup: 0.01, Reorder: 0.01, Corrupt: 0.02, Seed: uint64(side) + 1}
		if side == 1 {
			o.Dir = fault.Both
		}
		return fault.New(l, o)
	})
	a, b := join(t, nics, nil)
	widen(t, a, b)
	there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
	const least = count * size / framing.LongMTU / 2
	for side, v := range []*vipl.VI{a, b} {
		s, _ := nics[side].SealStats()
		if n := nics[side].Fetched(); !v.Wide() || n < least || s.Altered == 0 {
			t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t; %d were changed", side, n, least, v.Wide(), s.Altered)
		}
	}
}

// TestCapturedLong: to write down what passes changes nothing of what is sent, long
// frames included.
func TestCapturedLong(t *testing.T) {
	for name, wrap := range map[string]func(transport.Link) transport.Link{
		"trace": func(l transport.Link) transport.Link { return trace.New(l, io.Discard) },
		"pcap":  func(l transport.Link) transport.Link { return pcap.New(l, io.Discard) },
	} {
		t.Run(name, func(t *testing.T) {
			const count, size = 8, 1 << 20
			nics := vethNICs(t, 1500, vipl.Config{}, func(_ int, l transport.Link) transport.Link { return wrap(l) })
			a, b := join(t, nics, nil)
			there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
			within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
			const least = count * size / framing.LongMTU / 2
			for side, v := range []*vipl.VI{a, b} {
				if n := nics[side].Fetched(); !v.Wide() || n < least {
					t.Errorf("side %d: %d frames went straight to where they belong, want %d; long frames: %t", side, n, least, v.Wide())
				}
			}
		})
	}
}

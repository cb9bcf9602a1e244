package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/ring"
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

// TestLongFrames: where the path carries long frames, both sides send them from
// the first message on, and their data go straight to where they belong.
func TestLongFrames(t *testing.T) {
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			d := newLongDuo(t, [2]bool{}, openTo(level))
			if !d.b.Wide() || d.a.Wide() {
				t.Error("the client knows that the path carries long frames, and the server not yet:", d.b.Wide(), d.a.Wide())
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

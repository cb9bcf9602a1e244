package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// readable is a duo in which a may read from b.
func readable(t testing.TB, level reliability.Level, depth int) *duo {
	attr := vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable(), ReadDepth: depth}
	return newDuo(t, &attr, &attr)
}

// source registers memory of n that may be read, and filled with message i.
func (d *duo) source(n *vipl.NIC, i, size int) ([]byte, vipl.RemoteSegment) {
	d.t.Helper()
	buf, h := d.buffer(n, size, &vipl.MemAttributes{EnableRDMARead: true, EnableRDMAWrite: true})
	content(0, i, buf)
	return buf, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}
}

// read posts a read of size bytes on v into memory of its own.
func (d *duo) read(v *vipl.VI, size int, from vipl.RemoteSegment) *vipl.Descriptor {
	d.t.Helper()
	buf, h := d.buffer(v.NIC(), max(size, 1), nil)
	r := &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: split(buf[:size], h, size), Remote: from}
	if err := v.PostSend(r); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// joined returns what d's segments hold.
func joined(d *vipl.Descriptor) (b []byte) {
	for _, s := range d.Segs {
		b = append(b, s.Data...)
	}
	return b
}

// got wants x to have read want.
func (d *duo) got(x *vipl.Descriptor, err error, r *vipl.Descriptor, want []byte) {
	d.t.Helper()
	d.took(x, err, r, vipl.StatusOpRDMARead)
	if int(r.Length) != len(want) || !bytes.Equal(joined(r), want) {
		d.t.Fatalf("read %d bytes, want %d, or others", r.Length, len(want))
	}
}

// TestRDMARead reads ranges of several sizes, both ways at once.
func TestRDMARead(t *testing.T) {
	for _, size := range []int{0, 1, 64, 257, 1452, 1453, 30_000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			for _, level := range reliableLevels {
				d := readable(t, level, 0)
				bufB, atB := d.source(d.nb, 1, size+20)
				bufA, atA := d.source(d.na, 2, size+20)
				atB.Addr, atA.Addr = atB.Addr+7, atA.Addr+20
				ra, rb := d.read(d.a, size, atB), d.read(d.b, size, atA)
				for range 1 + size/20_000 {
					d.run()
				}
				x, err := d.a.SendDone()
				d.got(x, err, ra, bufB[7:7+size])
				x, err = d.b.SendDone()
				d.got(x, err, rb, bufA[20:20+size])
				if s := d.b.Snapshot(); s.RDMABytes != uint64(size) || s.RxBytes != uint64(size) || s.TxBytes != 0 {
					t.Errorf("counted %d bytes read here, %d received, %d sent, want %d, %d, 0", s.RDMABytes, s.RxBytes, s.TxBytes, size, size)
				}
			}
		})
	}
}

// TestReadAnswersAtOnce wants the answer in the poll that takes the request in,
// with the acknowledgement on it and no other frame, and the read complete in
// the poll that takes the answer in.
func TestReadAnswersAtOnce(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 0)
	buf, at := d.source(d.nb, 1, 64)
	d.run()
	before := [2]uint64{d.links[0].frames, d.links[1].frames}
	r := d.read(d.a, 64, at)
	d.nb.Poll()
	x, err := d.a.SendDone()
	d.got(x, err, r, buf)
	if a, b := d.links[0].frames-before[0], d.links[1].frames-before[1]; a != 1 || b != 1 {
		t.Errorf("%d frames there and %d back, want one each", a, b)
	}
}

// TestReadRefused posts what cannot be read.
func TestReadRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		level  reliability.Level
		change func(x *vipl.Descriptor)
		want   error
		status vipl.Status
	}{
		{"Unreliable", reliability.Unreliable, func(x *vipl.Descriptor) {}, vipl.ErrInvalidRDMARead, vipl.StatusFormatError},
		{"Immediate", reliability.ReliableDelivery, func(x *vipl.Descriptor) { x.HasImmediate = true }, vipl.ErrArgument, vipl.StatusFormatError},
		{"Operation", reliability.ReliableDelivery, func(x *vipl.Descriptor) { x.Op++ }, vipl.ErrArgument, vipl.StatusFormatError},
		{"Handle", reliability.ReliableReception, func(x *vipl.Descriptor) { x.Segs[0].Handle++ }, vipl.ErrArgument, vipl.StatusProtectionError},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuo(t, &vipl.Attributes{Reliability: c.level}, &vipl.Attributes{Reliability: c.level})
			buf, h := d.buffer(d.na, 8, nil)
			x := &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: []vipl.Segment{{Data: buf, Handle: h}}}
			c.change(x)
			if err := d.a.PostSend(x); !errors.Is(err, c.want) || x.Status != c.status {
				t.Errorf("%v, %v; want %v, %v", err, x.Status, c.want, c.status)
			}
			if !d.a.Query().SendEmpty {
				t.Error("it was queued")
			}
		})
	}
	if d := newDuo(t, nil, nil); !d.na.Query().RDMAReadSupport {
		t.Error("the NIC says that it does not support reads")
	}
}

// TestReadForbidden tries every read that the owner does not allow, behind one
// that it does and before a send: VIA's error at both sides, at the right
// descriptor, and nothing read.
func TestReadForbidden(t *testing.T) {
	const room = 4096
	open := vipl.MemAttributes{EnableRDMARead: true}
	same := func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h }
	for _, c := range []struct {
		name string
		mem  vipl.MemAttributes
		size int
		at   func(addr uint64, h vipl.MemHandle) (uint64, vipl.MemHandle)
	}{
		{"BeforeTheRegion", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a - 1, h }},
		{"BehindTheRegion", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room, h }},
		{"OneByteBeyond", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room - 7, h }},
		{"LastFrameBeyond", open, room + 1, same},
		{"AddressWraps", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return ^uint64(0) - 3, h }},
		{"RegionForbids", vipl.MemAttributes{EnableRDMAWrite: true}, 8, same},
		{"ZeroHandle", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, 0 }},
		{"UnknownSlot", open, 8, func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h + 77 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range reliableLevels {
				d := readable(t, level, 0)
				first, at := d.source(d.nb, 1, 5000)
				buf, h := d.buffer(d.nb, room, &c.mem)
				bad := vipl.RemoteSegment{}
				bad.Addr, bad.Handle = c.at(vipl.VirtualAddress(buf), h)
				in := d.post(d.b, 16)
				r1, r2, s := d.read(d.a, 5000, at), d.read(d.a, c.size, bad), d.send(d.a, 8)
				d.run()
				x, err := d.a.SendDone()
				d.got(x, err, r1, first)
				d.denied(r2, s)
				x, err = d.b.RecvDone()
				d.took(x, err, in, vipl.StatusOpReceive) // it has overtaken the read
			}
		})
	}
}

// denied wants the connection ended by the read r of a, and s flushed.
func (d *duo) denied(r, s *vipl.Descriptor) {
	d.t.Helper()
	x, err := d.a.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
	if b := joined(r); !bytes.Equal(b, bytes.Repeat([]byte{0xA5}, len(b))) {
		d.t.Error("something was read")
	}
	x, err = d.a.SendDone()
	d.took(x, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
	d.ended(vipl.ErrRDMA)
	if n := d.nb.Snapshot().Errors[vipl.CodeRDMARProt]; n != 1 {
		d.t.Errorf("the owner was told %d times, want once", n)
	}
}

// TestReadForbiddenByVI tries to read through a VI that does not allow it, and
// memory of another tag.
func TestReadForbiddenByVI(t *testing.T) {
	for _, forbid := range []func(d *duo, h vipl.MemHandle) error{
		func(d *duo, h vipl.MemHandle) error { return d.b.SetAttributes(&vipl.Attributes{}) },
		func(d *duo, h vipl.MemHandle) error { return d.nb.SetMemAttributes(h, nil) },
		func(d *duo, h vipl.MemHandle) error {
			tag, _ := d.nb.CreatePtag()
			return d.nb.SetMemAttributes(h, &vipl.MemAttributes{Ptag: tag, EnableRDMARead: true})
		},
		func(d *duo, h vipl.MemHandle) error {
			tag, _ := d.nb.CreatePtag()
			return d.b.SetAttributes(&vipl.Attributes{Ptag: tag, EnableRDMARead: true})
		},
	} {
		d := readable(t, reliability.ReliableDelivery, 0)
		buf, at := d.source(d.nb, 1, 64)
		r := d.read(d.a, 64, at)
		d.run()
		x, err := d.a.SendDone()
		d.got(x, err, r, buf)
		if err := forbid(d, at.Handle); err != nil {
			t.Fatal(err)
		}
		r, s := d.read(d.a, 64, at), d.send(d.a, 0)
		d.post(d.b, 0)
		d.nb.Poll()
		d.run()
		d.denied(r, s)
	}
}

// TestReadBlamesRightSend ends a connection by a message without a receive
// while a read is open: the send is to blame, not the read before it.
func TestReadBlamesRightSend(t *testing.T) {
	for _, level := range reliableLevels {
		d := readable(t, level, 0)
		_, at := d.source(d.nb, 1, 1<<20)
		r, s := d.read(d.a, 1<<20, at), d.send(d.a, 4)
		d.run()
		x, err := d.a.SendDone()
		d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
		x, err = d.a.SendDone()
		d.took(x, err, s, vipl.StatusOpSend|blamed(level))
		d.ended(vipl.ErrRecvQueue)
	}
}

// TestReadDepth posts many more reads than the owner serves at a time: they
// wait at their own side, and all are served.
func TestReadDepth(t *testing.T) {
	for _, depth := range []int{1, 3, 16, vipl.MaxReadDepth} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			const count = 400
			d := readable(t, reliability.ReliableDelivery, depth)
			buf, at := d.source(d.nb, 1, 4000)
			reads := make([]*vipl.Descriptor, count)
			for i := range reads {
				from := at
				from.Addr += uint64(i)
				reads[i] = d.read(d.a, 1+i%3000, from)
			}
			if n := d.a.Snapshot().TxFrames; n > uint64(depth)+10 {
				t.Errorf("%d frames were sent before the owner has answered", n)
			}
			for i, r := range reads {
				for range 1000 {
					d.nb.Poll()
					if x, err := d.a.SendDone(); err != vipl.ErrNotDone {
						d.got(x, err, r, buf[i:i+1+i%3000])
						break
					}
				}
				if r.Status == 0 {
					t.Fatal("the read did not complete")
				}
			}
			d.alive()
		})
	}
}

// TestReadSeesEarlierWrites reads what a write before it has written.
func TestReadSeesEarlierWrites(t *testing.T) {
	for _, size := range []int{64, 20_000} {
		d := readable(t, reliability.ReliableReception, 0)
		buf, at := d.source(d.nb, 1, size)
		w, r := d.write(d.a, size, at.Addr, at.Handle, false), d.read(d.a, size, at)
		d.run()
		x, err := d.a.SendDone()
		d.took(x, err, w, vipl.StatusOpRDMAWrite)
		x, err = d.a.SendDone()
		d.got(x, err, r, bytes.Repeat([]byte{0x5A}, size))
		if !bytes.Equal(buf, joined(r)) {
			t.Error("the region differs from what was read")
		}
	}
}

// TestFence posts a write and a send behind a read of what is written. With a
// fence the read returns what was there before; without, the write overtakes it.
func TestFence(t *testing.T) {
	for _, fence := range []bool{false, true} {
		for _, size := range []int{64, 60_000} {
			t.Run(fmt.Sprint(fence, size), func(t *testing.T) {
				d := readable(t, reliability.ReliableDelivery, 0)
				buf, at := d.source(d.nb, 1, size)
				old := bytes.Clone(buf)
				in := d.post(d.b, 0)
				src, h := d.buffer(d.na, size, nil)
				r := d.read(d.a, size, at)
				w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: src[:min(size, 1000)], Handle: h}}, Remote: at, Fence: fence}
				s := &vipl.Descriptor{Op: vipl.OpSend}
				for _, x := range []*vipl.Descriptor{w, s} {
					if err := d.a.PostSend(x); err != nil {
						t.Fatal(err)
					}
				}
				d.na.Poll()
				x, err := d.b.RecvDone() // the owner's first look: the request, and what has overtaken it
				if fence {
					if err != vipl.ErrNotDone {
						t.Fatalf("the send behind the fence came before the read was answered: %v", err)
					}
				} else {
					d.took(x, err, in, vipl.StatusOpReceive)
				}
				d.run()
				want := bytes.Clone(src[:min(size, 1000)])
				if fence {
					want = old[:len(want)]
					x, err = d.b.RecvDone()
					d.took(x, err, in, vipl.StatusOpReceive)
				}
				x, err = d.a.SendDone()
				d.got(x, err, r, append(want, old[len(want):]...))
				x, err = d.a.SendDone()
				d.took(x, err, w, vipl.StatusOpRDMAWrite)
				x, err = d.a.SendDone()
				d.took(x, err, s, vipl.StatusOpSend)
				if !bytes.Equal(buf[:len(want)], src[:len(want)]) {
					t.Error("the write was not done")
				}
			})
		}
	}
}

// TestFenceStopsPacking has small sends gathered for one frame while a read is
// open: those from the fence on stay.
func TestFenceStopsPacking(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 0)
	_, at := d.source(d.nb, 1, 64)
	for range 8 {
		d.post(d.b, 8)
	}
	d.read(d.a, 64, at)
	for i := range 8 {
		if err := d.a.PostSend(&vipl.Descriptor{Fence: i == 5}); err != nil {
			t.Fatal(err)
		}
	}
	d.na.Poll()
	before := 0
	for ; ; before++ {
		if x, _ := d.b.RecvDone(); x == nil {
			break
		}
	}
	if before != 5 {
		t.Errorf("%d sends came before the read was complete, want 5", before)
	}
	d.run()
	for ; ; before++ {
		if x, _ := d.b.RecvDone(); x == nil {
			break
		}
	}
	if before != 8 {
		t.Errorf("%d sends came, want 8", before)
	}
}

// TestReadTakesTurns reads a long range from a side that is sending as much:
// on the wire the two alternate.
func TestReadTakesTurns(t *testing.T) {
	const size = 40 * 1452
	d := readable(t, reliability.ReliableDelivery, 0)
	_, at := d.source(d.nb, 1, size)
	d.post(d.a, size)
	d.read(d.a, size, at)
	d.send(d.b, size)
	d.run()
	var kinds []ethertype.Kind
	l := d.links[0]
	for i := max(0, l.tail-memSlots); i < l.tail; i++ {
		var h ethertype.Header
		if _, err := h.Parse(l.slots[i%memSlots][:l.lens[i%memSlots]]); err == nil && (h.Kind == ethertype.KindData || h.Kind == ethertype.KindReadData) {
			kinds = append(kinds, h.Kind)
		}
	}
	turns := 0
	for i := 1; i < len(kinds); i++ {
		if kinds[i] != kinds[i-1] {
			turns++
		}
	}
	if len(kinds) != 80 || turns < 50 { // those sent before the request came are the sender's alone
		t.Errorf("%d frames with %d turns: %v", len(kinds), turns, kinds)
	}
}

// TestReadGoesOn: a message that comes alone makes room for the rest of an answer at
// once, though its receiver may make no call for long.
func TestReadGoesOn(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 4)
	_, at := d.source(d.na, 1, 1<<20)
	in, l := d.post(d.a, 8), d.links[0]
	d.read(d.b, 1<<20, at)
	d.na.Poll() // answers with what the window allows
	d.nb.Poll()
	l.tail = l.head + l.lent // b's acknowledgements are lost
	d.send(d.b, 8)
	before := l.frames
	x, err := d.a.RecvDone()
	d.took(x, err, in, vipl.StatusOpReceive)
	if l.frames == before {
		t.Error("the answer stands still")
	}
}

// TestReadWaitingTakenBack takes back the right to read a region while the whole
// answer waits for a link that is full: it is not sent.
func TestReadWaitingTakenBack(t *testing.T) {
	for name, take := range map[string]func(d *duo, h vipl.MemHandle) error{
		"DeregisterMem":    func(d *duo, h vipl.MemHandle) error { return d.nb.DeregisterMem(h) },
		"SetMemAttributes": func(d *duo, h vipl.MemHandle) error { return d.nb.SetMemAttributes(h, nil) },
		"SetAttributes": func(d *duo, h vipl.MemHandle) error {
			a := d.b.Query().Attributes
			a.EnableRDMARead = false
			return d.b.SetAttributes(&a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := readable(t, reliability.ReliableDelivery, 0)
			buf, h, err := d.nb.AllocMem(1000, &vipl.MemAttributes{EnableRDMARead: true})
			if err != nil {
				t.Fatal(err)
			}
			d.run()
			r := d.read(d.a, 1000, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
			l := d.links[0]
			room := l.tail
			l.tail = l.head + memSlots
			d.nb.Poll() // takes the request
			d.nb.Poll()
			if err := take(d, h); err != nil {
				t.Fatal(err)
			}
			l.tail = room
			*l.clock += int64(time.Second) // the answer counts as lost
			d.run()
			x, err := d.a.SendDone()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
			d.ended(vipl.ErrRDMA)
		})
	}
}

// library is a region that a reader reads pieces of.
type library struct {
	buf    []byte
	remote vipl.RemoteSegment
	closed bool // the reader is through
}

const librarySize = 1<<20 + 4096

// open fills and registers the region, and serves it until the reader is through.
func (l *library) open(seed uint64) func(v *vipl.VI) error {
	return func(v *vipl.VI) error {
		l.buf = make([]byte, librarySize)
		content(seed, 0, l.buf)
		h, err := v.NIC().RegisterMem(l.buf, &vipl.MemAttributes{EnableRDMARead: true})
		if err != nil {
			return err
		}
		l.remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(l.buf), Handle: h}
		for !l.closed {
			if err := driveMs(v.NIC()); err != nil || v.State() == vipl.StateError {
				return errors.Join(err, v.Err())
			}
		}
		return nil
	}
}

// readSize draws a size up to 1 MiB of which the logarithm is even.
func readSize(rng *rand.Rand, most int) int {
	if rng.IntN(10) == 0 {
		return 0
	}
	return rng.IntN(1<<rng.IntN(most+1)) + 1
}

// TestReadSurvive reads pieces of up to 1 MiB, many outstanding, from an owner
// that serves a few at a time, over a network that loses a third of all frames
// or copies and reorders them.
func TestReadSurvive(t *testing.T) {
	for _, c := range []struct {
		name string
		opts sim.Options
	}{
		{"Loss30", sim.Options{Loss: 0.3}},
		{"DuplicationReordering64", sim.Options{Dup: 0.2, Reorder: 0.3, ReorderBy: 64}},
		{"Everything", sim.Options{Loss: 0.15, Corrupt: 0.1, Dup: 0.1, Reorder: 0.2, ReorderBy: 64, Jitter: 30 * time.Microsecond, Bandwidth: 1e9, Queue: 64, TxSlots: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds(t, 200, func(seed uint64) error {
				opts := c.opts
				opts.Seed = seed
				opts.MTU = []int{1500, 400, 9000}[seed%3]
				attr := &vipl.Attributes{Reliability: reliableLevels[seed%2], EnableRDMARead: true, ReadDepth: 1 + int(seed%20), PeerTimeout: time.Minute}
				most := 16
				if seed%40 == 0 {
					most = 20
				}
				l := &library{}
				return pair(opts, attr, l.open(seed), nil, func(v *vipl.VI) error { return l.read(v, seed, most) })
			})
		})
	}
}

// read posts 24 reads and checks them as they complete.
func (l *library) read(v *vipl.VI, seed uint64, most int) error {
	defer func() { l.closed = true }()
	rng := rand.New(rand.NewPCG(seed, 0x4ead))
	for l.remote.Addr == 0 {
		if err := driveMs(v.NIC()); err != nil {
			return err
		}
	}
	reads := make([]*vipl.Descriptor, 24)
	at := make([]int, len(reads))
	for i := range reads {
		size := readSize(rng, most)
		if most == 20 && i == 7 {
			size = 1 << 20
		}
		at[i] = rng.IntN(librarySize - size + 1)
		buf := make([]byte, max(size, 1))
		h, err := v.NIC().RegisterMem(buf, nil)
		if err != nil {
			return err
		}
		reads[i] = &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: split(buf[:size], h, i), Remote: l.remote, Fence: rng.IntN(6) == 0}
		reads[i].Remote.Addr += uint64(at[i])
		if err := v.PostSend(reads[i]); err != nil {
			return err
		}
	}
	for i, r := range reads {
		d, err := v.SendWait(bg)
		if err != nil {
			return fmt.Errorf("read %d: %w: %v", i, err, v.Err())
		}
		b := joined(d)
		if d != r || int(d.Length) != len(b) || !bytes.Equal(b, l.buf[at[i]:at[i]+len(b)]) {
			return fmt.Errorf("read %d of %d bytes is not what the region holds: %v", i, len(b), d.Status)
		}
	}
	return nil
}

// served is a duo in the middle of a read of a's from memory that the library
// has mapped at b.
func served(t *testing.T, level reliability.Level) (d *duo, r *vipl.Descriptor, h vipl.MemHandle) {
	d = readable(t, level, 0)
	buf, h, err := d.nb.AllocMem(1<<20, &vipl.MemAttributes{EnableRDMARead: true})
	if err != nil {
		t.Fatal(err)
	}
	r = d.read(d.a, len(buf), vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
	for range 6 {
		d.nb.Poll()
		d.na.Poll()
	}
	if s := d.b.Snapshot(); s.RDMABytes > 0 || s.Sender.InFlight == 0 || d.a.Snapshot().SendUntaken > 0 {
		t.Fatalf("the read is not in its middle: %d served, %d in flight, %d completed", s.RDMABytes, s.Sender.InFlight, d.a.Snapshot().SendUntaken)
	}
	return d, r, h
}

// TestReadFromMemoryTakenBack takes back the memory, or the right to read it,
// in the middle of a read: the connection ends with VIA's error and nothing is
// read from pages that are no longer there.
func TestReadFromMemoryTakenBack(t *testing.T) {
	for name, take := range map[string]func(d *duo, h vipl.MemHandle) error{
		"DeregisterMem":    func(d *duo, h vipl.MemHandle) error { return d.nb.DeregisterMem(h) },
		"SetMemAttributes": func(d *duo, h vipl.MemHandle) error { return d.nb.SetMemAttributes(h, nil) },
		"SetAttributes": func(d *duo, h vipl.MemHandle) error {
			a := d.b.Query().Attributes
			a.EnableRDMARead = false
			return d.b.SetAttributes(&a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, r, h := served(t, reliability.ReliableDelivery)
			if err := take(d, h); err != nil {
				t.Fatal(err)
			}
			d.run()
			x, err := d.a.SendDone()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
			d.ended(vipl.ErrRDMA)
		})
	}
}

// TestReadFullLinkTakenBack does so while frames of the answer wait for a link
// that is full: they must not be sent from pages that are gone.
func TestReadFullLinkTakenBack(t *testing.T) {
	d, r, h := served(t, reliability.ReliableReception)
	room := d.links[0].tail
	d.links[0].tail = d.links[0].head + memSlots // b's frames find no room
	d.nb.Poll()
	*d.links[0].clock += 1_000_000_000 // time-outs send again into the full link
	d.nb.Poll()
	if err := d.nb.DeregisterMem(h); err != nil {
		t.Fatal(err)
	}
	d.links[0].tail = room
	d.run()
	x, err := d.a.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
	d.ended(vipl.ErrRDMA)
}

// TestReadSentAgainTakenBack takes the memory back when all of the answer has
// been sent, and lost: it is looked at again before anything is sent again.
func TestReadSentAgainTakenBack(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 0)
	buf, h, err := d.nb.AllocMem(5000, &vipl.MemAttributes{EnableRDMARead: true})
	if err != nil {
		t.Fatal(err)
	}
	d.run()
	r := d.read(d.a, 5000, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
	d.nb.Poll()
	l := d.links[0]
	if l.tail-l.head-l.lent != 4 {
		t.Fatalf("%d frames of the answer are under way, want 4", l.tail-l.head-l.lent)
	}
	l.tail = l.head + l.lent
	if err := d.nb.DeregisterMem(h); err != nil {
		t.Fatal(err)
	}
	*l.clock += 1_000_000_000
	d.run()
	x, err := d.a.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
	d.ended(vipl.ErrRDMA)
}

// TestReadEnds ends the connection in the middle of a read, at each side and in
// each way: the read completes flushed, its memory is the caller's and is not
// written any more, and both can connect and read again.
func TestReadEnds(t *testing.T) {
	for name, end := range map[string]func(d *duo) error{
		"OwnerDisconnects":  func(d *duo) error { return d.b.Disconnect() },
		"ReaderDisconnects": func(d *duo) error { return d.a.Disconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			d, r, h := served(t, reliability.ReliableDelivery)
			if err := end(d); err != nil {
				t.Fatal(err)
			}
			x, err := d.taken()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
			before := bytes.Clone(joined(r))
			d.run()
			if !bytes.Equal(before, joined(r)) {
				t.Error("memory was written after the read had been flushed")
			}
			if err := d.nb.DeregisterMem(h); err != nil {
				t.Fatal(err)
			}
			d.a.Disconnect()
			d.b.Disconnect()
			d.run()
			d.connect()
			buf, at := d.source(d.nb, 3, 5000)
			r = d.read(d.a, 5000, at)
			d.run()
			x, err = d.a.SendDone()
			d.got(x, err, r, buf)
		})
	}
	t.Run("OwnerCloses", func(t *testing.T) {
		d, r, _ := served(t, reliability.ReliableDelivery)
		d.nb.Close()
		x, err := d.taken()
		d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
	})
	t.Run("ReaderCloses", func(t *testing.T) {
		d, _, _ := served(t, reliability.ReliableDelivery)
		d.na.Close()
		d.nb.Poll()
		if !errors.Is(d.b.Err(), vipl.ErrDisconnected) {
			t.Error(d.b.Err())
		}
	})
}

// taken takes a's oldest send when the frames under way to it have come.
func (d *duo) taken() (*vipl.Descriptor, error) {
	x, err := d.a.SendDone()
	for i := 0; i < 20 && err == vipl.ErrNotDone; i++ {
		x, err = d.a.SendDone()
	}
	return x, err
}

// TestReadPostedEarly posts reads while the connection is being made, and in
// the states in which nothing can be sent.
func TestReadPostedEarly(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 2)
	d.a.Disconnect()
	d.b.Disconnect()
	d.run()
	buf, at := d.source(d.na, 1, 3000)
	r := d.read(d.b, 3000, at)
	x, err := d.b.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := d.b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	var reads []*vipl.Descriptor
	for range 5 {
		reads = append(reads, d.read(d.b, 3000, at))
	}
	req, err := taken(l, d.nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.AcceptStart(d.a); err != nil {
		t.Fatal(err)
	}
	d.run()
	for _, r := range reads {
		x, err := d.b.SendDone()
		d.got(x, err, r, buf)
	}
}

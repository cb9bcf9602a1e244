package vipl_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// siege is a live connection at whose side a somebody throws frames.
type siege struct {
	*duo
	mutant.Frames // of frames that b has sent to a on this connection
	level         reliability.Level
	private       []byte // registered at a, closed to peers
	untouched     []byte // a copy of it
	open          []byte // registered at a, open to peers
	openH         vipl.MemHandle
	in            []*vipl.Descriptor
	before        vipl.Snapshot
	injected      int // frames
	ended         int // connections that ended
	parsed        ethertype.Header
}

// way is what a's link can do besides.
type way int

const (
	plainWay way = iota
	longWay      // carry long frames, as b's does
)

var wayNames = [...]string{"", "Long"}

func newSiege(t testing.TB, level reliability.Level, seed uint64, way way) *siege {
	attr := &vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable()}
	var d *duo
	switch way {
	case longWay:
		d = newLongDuo(t, [2]bool{}, attr)
	default:
		d = newDuo(t, attr, attr)
	}
	s := &siege{duo: d, Frames: newFrames(seed, 1500), level: level}
	s.private, _ = s.buffer(s.na, 8192, nil)
	s.untouched = bytes.Clone(s.private)
	s.open, s.openH = s.buffer(s.na, 8192, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
	for range 8 {
		s.in = append(s.in, s.post(s.a, 4000))
	}
	s.capture()
	return s
}

// capture lets b send some of everything and keeps the frames.
func (s *siege) capture() {
	l := s.links[0]
	l.head += l.lent
	for tries := 0; s.long[1] != nil && s.level.Reliable() && !s.b.Wide(); tries++ {
		if tries == 100 {
			s.t.Fatal("no long frames")
		}
		s.send(s.b, 3000)
		s.run()
		s.repost()
		s.b.SendDone()
	}
	from := l.tail
	s.send(s.b, 10)
	for range 5 {
		s.send(s.b, 20)
	}
	s.send(s.b, 3000)
	s.write(s.b, 3000, vipl.VirtualAddress(s.open), s.openH, false)
	s.write(s.b, 8, vipl.VirtualAddress(s.open), s.openH, true)
	if s.level.Reliable() {
		s.read(s.b, 3000, vipl.RemoteSegment{Addr: vipl.VirtualAddress(s.open), Handle: s.openH})
		_, at := s.source(s.nb, 1, 3000)
		s.read(s.a, 3000, at) // answered in frames of b
	}
	s.run()
	s.a.SendDone() // the read
	s.Right = s.Right[:0]
	for i := from; i < l.tail; i++ {
		s.Right = append(s.Right, unshared(l.slots[i%memSlots][:l.lens[i%memSlots]])...)
	}
	s.repost()
	for {
		if _, err := s.b.SendDone(); err == vipl.ErrQueueEmpty || err == vipl.ErrNotDone {
			break
		}
	}
	addControl(&s.Frames)
}

// repost takes what a has received and posts the buffers again.
func (s *siege) repost() {
	for {
		d, err := s.a.RecvDone()
		if d == nil {
			return
		}
		if int(d.Length) > len(d.Segs[0].Data) {
			s.t.Fatalf("a message of %d bytes was delivered to a receive of %d", d.Length, len(d.Segs[0].Data))
		}
		if s.a.State() == vipl.StateConnected || err == nil {
			if err := s.a.PostRecv(d); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// inject puts a frame into a's receive queue and lets a take it.
func (s *siege) inject(frame []byte) {
	for s.links[0].Ready() || s.long[0] != nil && s.long[0].Ready() { // what b has answered
		s.na.Poll()
	}
	s.before = s.na.Snapshot()
	if n, _ := s.links[1].Send([]transport.Frame{{Head: frame}}); n != 1 {
		s.t.Fatal("the wire is full")
	}
	s.na.Poll()
	for s.long[0] != nil && s.long[0].Ready() {
		s.na.Poll()
	}
	s.injected++
	s.account(frame)
}

// account wants the frame taken or counted under exactly one reason.
func (s *siege) account(frame []byte) {
	after := s.na.Snapshot()
	_, err := s.parsed.Parse(frame)
	dropped := 0
	for why := range after.Dropped {
		if drops.Reason(why) != drops.Incomplete { // counts messages
			dropped += int(after.Dropped[why] - s.before.Dropped[why])
		}
	}
	follow := 0 // frames that share it, of which the last may be none
	for rest := frame; err == nil && s.parsed.Next(rest) != nil; follow++ {
		rest = s.parsed.Next(rest)
		if _, e := s.parsed.Parse(rest); e != nil {
			s.parsed.Flags = 0
		}
	}
	valid := int(after.RxFrames - s.before.RxFrames)
	filtered := int(after.Link.RxFiltered - s.before.Link.RxFiltered)
	own := len(frame) >= framing.OuterSize && ethertype.MAC(frame[framing.OffsetSrc:]) == s.na.Addr().MAC
	if own && filtered == 1 { // what claims to be from this host does not come by the wire: package host
		valid, err = valid+1, nil
	}
	if err != nil && (valid != 0 || dropped != 1) || err == nil && (valid != 1 || dropped > 1+follow) {
		s.t.Fatalf("frame %s (%v): %d times valid, %d times dropped: %v", framing.Dump(frame), err, valid, dropped, after.Dropped)
	}
	if !bytes.Equal(s.private, s.untouched) {
		s.t.Fatalf("a private region was written to by %s", framing.Dump(frame))
	}
}

// revive connects again if the connection has ended, with an error that says why.
func (s *siege) revive() {
	if s.a.State() == vipl.StateConnected && s.b.State() == vipl.StateConnected {
		return
	}
	s.run()
	for _, v := range []*vipl.VI{s.a, s.b} {
		if v.State() == vipl.StateError && v.Err() == nil {
			s.t.Fatal("a connection ended without an error")
		}
		v.Disconnect()
		for {
			if d, _ := v.RecvDone(); d == nil {
				break
			}
		}
		for {
			if d, _ := v.SendDone(); d == nil {
				break
			}
		}
	}
	s.ended++
	s.run()
	s.connect()
	for _, d := range s.in {
		if err := s.a.PostRecv(d); err != nil {
			s.t.Fatal(err)
		}
	}
	s.capture()
}

// TestEachDropReason throws one frame for each reason and wants just that one
// counted, by the NIC and by the VI if the frame tells for which it was, and
// nothing broken.
func TestEachDropReason(t *testing.T) {
	s := newSiege(t, reliability.ReliableDelivery, 4, plainWay)
	s.another() // nothing is thrown at it
	for _, c := range []struct {
		why    drops.Reason
		change func(f []byte, h *ethertype.Header) []byte // nil: h is put back and sealed
	}{
		{drops.Short, func(f []byte, h *ethertype.Header) []byte { return f[:40] }},
		{drops.Format, func(f []byte, h *ethertype.Header) []byte { f[14]++; return f }},
		{drops.CRC, func(f []byte, h *ethertype.Header) []byte { f[59]++; return f }},
		{drops.Range, func(f []byte, h *ethertype.Header) []byte { h.Flags, h.Length = 0, 3; return nil }},
		{drops.Stale, func(f []byte, h *ethertype.Header) []byte { h.Tag++; return nil }},
		{drops.Peer, func(f []byte, h *ethertype.Header) []byte { h.Src[5]++; return nil }},
		{drops.Peer, func(f []byte, h *ethertype.Header) []byte { h.SrcPort++; return nil }},
		{drops.Duplicate, func(f []byte, h *ethertype.Header) []byte { return f }},
		{drops.Ahead, func(f []byte, h *ethertype.Header) []byte { h.Seq += 3000; return nil }},
		{drops.Ack, func(f []byte, h *ethertype.Header) []byte { h.Ack += 9; return nil }},
		{drops.NoReceive, func(f []byte, h *ethertype.Header) []byte { h.Seq, h.Msg = h.Seq+20, h.Msg+900; return nil }},
		{drops.NoListener, func(f []byte, h *ethertype.Header) []byte { return request(h) }},
		{drops.Unknown, func(f []byte, h *ethertype.Header) []byte {
			h.Kind, h.Flags = ethertype.KindAnswer, ethertype.FlagWholeCRC
			return nil
		}},
		{drops.Destination, func(f []byte, h *ethertype.Header) []byte { h.Dst = ethertype.Broadcast; return nil }},
	} {
		t.Run(c.why.String(), func(t *testing.T) {
			f := bytes.Clone(s.Right[0])
			var h ethertype.Header
			if _, err := h.Parse(f); err != nil {
				t.Fatal(err)
			}
			if g := c.change(f, &h); g != nil {
				f = g
			} else {
				h.Put(f)
				mutant.Reseal(f)
			}
			s.inject(f)
			after := s.na.Snapshot()
			wantDropped(t, "the NIC", &s.before.Dropped, &after.Dropped, c.why, 1)
			for i := range after.VIs {
				v, want := &after.VIs[i], uint64(0)
				if v.Local == s.a.Local() && slices.Contains(ofVI, c.why) {
					want = 1
				}
				wantDropped(t, fmt.Sprint("VI ", v.Local.Port), &s.before.VIs[i].Dropped, &v.Dropped, c.why, want)
			}
			s.run()
			s.alive()
		})
	}
}

// TestToAllIsNoConnection: a frame of any kind that belongs to a connection reaches
// nothing when it was sent to all, whatever else is right about it.
func TestToAllIsNoConnection(t *testing.T) {
	s := newSiege(t, reliability.ReliableDelivery, 4, plainWay)
	addControl(&s.Frames)
	kinds := map[ethertype.Kind]bool{}
	for _, f := range s.Right {
		var h ethertype.Header
		if _, err := h.Parse(f); err != nil {
			t.Fatal(err)
		}
		switch h.Kind {
		case ethertype.KindQuery, ethertype.KindAnswer, ethertype.KindEcho, ethertype.KindEchoReply:
			continue
		}
		kinds[h.Kind] = true
		h.Dst = ethertype.Broadcast
		f = bytes.Clone(f)
		h.Put(f)
		mutant.Reseal(f)
		s.inject(f)
		after := s.na.Snapshot()
		wantDropped(t, h.Kind.String(), &s.before.Dropped, &after.Dropped, drops.Destination, 1)
	}
	if len(kinds) < 10 {
		t.Errorf("only frames of %d kinds were thrown: %v", len(kinds), kinds)
	}
	s.run()
	s.alive()
}

// ofVI are the reasons that a VI counts.
var ofVI = []drops.Reason{drops.CRC, drops.Peer, drops.Duplicate, drops.Ahead, drops.Ack, drops.NoReceive}

// wantDropped wants so many frames more dropped for why, and none for anything else.
func wantDropped(t *testing.T, who string, before, after *vipl.DropCounts, why drops.Reason, want uint64) {
	t.Helper()
	for r, n := range after {
		w := uint64(0)
		if drops.Reason(r) == why {
			w = want
		}
		if n -= before[r]; n != w {
			t.Errorf("%s counted %v %d times, want %d", who, drops.Reason(r), n, w)
		}
	}
}

// request returns a connection request for a port where nobody listens.
func request(h *ethertype.Header) []byte {
	h.Kind, h.Flags, h.DstPort, h.Size = ethertype.KindRequest, ethertype.FlagWholeCRC, 2000, 34
	f := make([]byte, ethertype.HeaderSize+34)
	h.Put(f)
	info := f[ethertype.HeaderSize:]
	info[11], info[18], info[28], info[33] = 1, 5, byte(reliability.ReliableDelivery), 1 // tag, MTU, level, reads
	mutant.Reseal(f)
	return f
}

// siegeFrames is how many frames each siege throws, on all levels together.
func siegeFrames() int {
	switch {
	case need.Race: // one goroutine throws and receives
		return 10_000
	case need.Full():
		return 1_000_000
	}
	return 40_000
}

// TestMillionBadFrames throws a million frames that are wrong for what protects
// a connection, the CRC and the tag, at a NIC under traffic. Nothing but what
// was sent may arrive, and the connection must hold.
func TestMillionBadFrames(t *testing.T) {
	sieges(t, func(t *testing.T, level reliability.Level, frames int, way way) {
		s := newSiege(t, level, 1, way)
		for s.injected < frames {
			s.inject(s.Wrong(nil))
			if s.injected%200 == 0 {
				s.deliver(uint64(s.injected))
			}
		}
		if s.ended > 0 || s.a.State() != vipl.StateConnected || s.b.State() != vipl.StateConnected {
			t.Errorf("the connection did not hold: %v, %v", s.a.Err(), s.b.Err())
		}
	})
}

// sieges runs a siege on each level, on the reliable ones with each way.
func sieges(t *testing.T, run func(t *testing.T, level reliability.Level, frames int, way way)) {
	each := siegeFrames() / (1 + len(reliableLevels)*len(wayNames))
	for _, level := range levels {
		for i, name := range wayNames {
			way := way(i)
			if way == 0 || level.Reliable() {
				t.Run(level.String()+name, func(t *testing.T) {
					t.Parallel()
					run(t, level, each, way)
				})
			}
		}
	}
}

// deliver sends one message and wants it, and it alone, intact.
func (s *siege) deliver(i uint64) {
	s.t.Helper()
	for _, d := range s.in {
		content(0, 0, d.Segs[0].Data)
	}
	out, h := s.buffer(s.nb, 50+int(i%3000), nil)
	content(i, 1, out)
	x := &vipl.Descriptor{Segs: []vipl.Segment{{Data: out, Handle: h}}}
	if err := s.b.PostSend(x); err != nil {
		s.t.Fatal(err, s.b.Err())
	}
	s.run()
	d, err := s.a.RecvDone()
	if err != nil || int(d.Length) != len(out) || check(i, 1, d.Segs[0].Data[:len(out)]) != nil {
		s.t.Fatalf("after frame %d the message did not arrive intact: %v (%v)", i, err, s.a.Err())
	}
	if err := s.a.PostRecv(d); err != nil {
		s.t.Fatal(err)
	}
	if d, err := s.a.RecvDone(); d != nil {
		s.t.Fatalf("a message that nobody sent arrived: %v, %v", d.Status, err)
	}
	if _, err := s.b.SendDone(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.nb.DeregisterMem(h); err != nil {
		s.t.Fatal(err)
	}
}

// TestMillionForgedFrames throws a million changed frames with the right tag
// and a right CRC, as a broken or hostile peer would send. The connection may
// end, with an error; nothing is written beyond what is posted or open.
func TestMillionForgedFrames(t *testing.T) {
	sieges(t, func(t *testing.T, level reliability.Level, frames int, way way) {
		s := newSiege(t, level, 2, way)
		for s.injected < frames {
			f := s.Mutate()
			mutant.Reseal(f)
			s.inject(f)
			if s.injected%16 == 0 {
				s.nb.Poll()
				s.repost()
				s.revive()
			}
		}
		t.Logf("%d connections ended", s.ended)
		if way == longWay && s.na.Fetched() < 100 {
			t.Errorf("%d frames went straight to memory: the test tests nothing", s.na.Fetched())
		}
		if level != reliability.Unreliable && s.ended == 0 {
			t.Error("no forged frame has got through: the test tests nothing")
		}
	})
}

// FuzzNIC lets the fuzzer write programs of frames: each step picks a captured
// frame, changes some of its bytes, seals it or not, and throws it.
func FuzzNIC(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 30, 7, 2, 2, 54, 255, 200, 0})
	f.Add([]byte(fmt.Sprintf("%0200d", 7)))
	f.Fuzz(func(t *testing.T, program []byte) {
		program = program[:min(len(program), 512)]
		level := levels[0]
		if len(program) > 0 {
			level = levels[int(program[0])%len(levels)]
		}
		ways := plainWay
		if len(program) > 1 {
			ways = []way{plainWay, longWay}[program[1]>>5&1]
		}
		s := newSiege(t, level, 3, ways)
		for len(program) >= 4 {
			frame := bytes.Clone(s.Right[int(program[0])%len(s.Right)])
			changes := int(program[1] & 7)
			seal, cut := program[1]&8 != 0, program[1]&16 != 0
			program = program[2:]
			for ; changes > 0 && len(program) >= 2; changes-- {
				frame[int(program[0])%len(frame)] = program[1]
				program = program[2:]
			}
			if cut && len(program) > 0 {
				frame = frame[:min(int(program[0]), len(frame))]
			}
			if seal {
				mutant.Reseal(frame)
			}
			s.inject(frame)
			s.nb.Poll()
			s.repost()
			s.revive()
		}
	})
}

// fragment forges n bytes of a message of length bytes, from offset on. The
// message is the one that goes into the oldest receive.
func (f *forger) fragment(offset, n, length uint32, flags ethertype.Flags) {
	f.forge(ethertype.Header{Kind: ethertype.KindData, Flags: flags, Msg: f.like.Msg + 1, Offset: offset, Length: length}, make([]byte, n))
}

// written is fragment for an RDMA write with immediate data, to at.
func (f *forger) written(at vipl.RemoteSegment, offset, n, length uint32, flags ethertype.Flags) {
	b := make([]byte, ethertype.RDMASize+int(n))
	ethertype.RDMA{Addr: at.Addr, Handle: uint32(at.Handle), Immediate: 7}.Put(b)
	f.forge(ethertype.Header{Kind: ethertype.KindRDMAWrite, Flags: flags | ethertype.FlagImmediate, Msg: f.like.Msg + 1, Offset: offset, Length: length}, b)
}

// packed forges a packed frame with a message of n bytes.
func (f *forger) packed(n int) {
	b := make([]byte, ethertype.Packed(n))
	ethertype.Record{Size: uint16(n)}.Put(b)
	f.forge(ethertype.Header{Kind: ethertype.KindData, Flags: ethertype.FlagPacked, Msg: f.like.Msg + 1}, b)
}

// TestForgedData sends messages whose frames contradict each other: the
// connection ends, and no receive completes with bytes that nobody has sent.
func TestForgedData(t *testing.T) {
	const last = ethertype.FlagLast
	for name, forge := range map[string]func(f *forger, at vipl.RemoteSegment){
		"BytesMissing": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 12, 0)
			f.alive()
			f.fragment(8, 4, 12, last)
		},
		"BytesTwice": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 5, 8, 0)
			f.alive()
			f.fragment(4, 4, 8, last)
		},
		"LastFirst": func(f *forger, _ vipl.RemoteSegment) { f.fragment(0, 4, 8, last) },
		"OtherLength": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.fragment(4, 4, 9, last)
		},
		"PackedOverFragments": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.packed(8)
		},
		"SendOverWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.fragment(4, 4, 8, last)
		},
		"PackedOverWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.packed(8)
		},
		"WriteOverSend": func(f *forger, at vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.written(at, 4, 4, 8, last)
		},
		"OtherLengthOfWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.written(at, 4, 5, 9, last)
		},
		"BytesOfWriteMissing": func(f *forger, at vipl.RemoteSegment) { f.written(at, 0, 4, 8, last) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			in := f.post(f.a, 64)
			_, at := f.source(f.na, 1, 64)
			forge(f, at)
			f.run()
			f.ended(vipl.ErrProtocol)
			if d, _ := f.a.RecvDone(); d != in || !d.Status.Failed() {
				t.Errorf("the receive completed with %v", in.Status)
			}
		})
	}
}

// TestForgedLooseData: on the unreliable level a frame of another kind than the
// message that it says to belong to is dropped, and the message goes on.
func TestForgedLooseData(t *testing.T) {
	const last = ethertype.FlagLast
	for name, c := range map[string]struct {
		forge func(f *forger, at vipl.RemoteSegment)
		want  vipl.Status
	}{
		"SendOverWrite": {func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.fragment(4, 4, 8, last)
			f.written(at, 4, 4, 8, last)
		}, vipl.StatusOpRemoteRDMAWrite | vipl.StatusImmediate},
		"WriteOverSend": {func(f *forger, at vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.written(at, 4, 4, 8, last)
			f.fragment(4, 4, 8, last)
		}, vipl.StatusOpReceive},
		"OtherLength": {func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.fragment(4, 4, 9, last)
			f.fragment(4, 4, 8, last)
		}, vipl.StatusOpReceive},
	} {
		t.Run(name, func(t *testing.T) {
			attr := &vipl.Attributes{Reliability: reliability.Unreliable, EnableRDMAWrite: true}
			f := &forger{duo: newDuo(t, attr, attr)}
			l := f.links[0]
			f.send(f.b, 8)
			if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
				t.Fatal(err)
			}
			f.run()
			in := f.post(f.a, 64)
			_, at := f.source(f.na, 1, 64)
			c.forge(f, at)
			if n := f.na.Snapshot().Dropped[drops.Range]; n != 1 {
				t.Errorf("%d frames dropped, want the one between", n)
			}
			d, err := f.a.RecvDone()
			f.took(d, err, in, c.want)
			f.alive()
		})
	}
}

// TestForgedAcks: a frame in its turn that acknowledges what was never sent is
// dropped whole, though it comes alone, so that its acknowledgement could wait.
func TestForgedAcks(t *testing.T) {
	for name, change := range map[string]func(f *forger, h *ethertype.Header){
		"Ahead":  func(f *forger, h *ethertype.Header) { h.Ack = f.like.Ack + 9 },
		"Behind": func(f *forger, h *ethertype.Header) { h.Ack = f.like.Ack - 1<<30 - 9 },
		"Sack":   func(f *forger, h *ethertype.Header) { h.Sack = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			f.post(f.a, 64)
			h := ethertype.Header{Kind: ethertype.KindData, Flags: ethertype.FlagLast, Msg: f.like.Msg + 1, Length: 8}
			change(f, &h)
			f.forge(h, make([]byte, 8))
			if d, err := f.a.RecvDone(); d != nil || f.na.Snapshot().Dropped[drops.Ack] != 1 {
				t.Errorf("took %v (%v); drops: %v", d, err, f.na.Snapshot().Dropped)
			}
			f.alive()
		})
	}
}

// newFrames returns frames that no right ones are known of, for an MTU.
func newFrames(seed uint64, mtu int) mutant.Frames {
	return mutant.Frames{RNG: rand.New(rand.NewPCG(seed, 9)), Longest: mtu + ethertype.EthernetSize}
}

// addControl adds to the right frames, of which there are some of a connection, one of each kind
// that has no sequence number, with the connection's tag.
func addControl(m *mutant.Frames) {
	var h ethertype.Header
	if _, err := h.Parse(m.Right[0]); err != nil {
		panic(err)
	}
	for k := ethertype.KindAck; k <= ethertype.KindEchoReply; k++ {
		h.Kind, h.Flags, h.Size, h.Count, h.Length, h.Offset = k, ethertype.FlagWholeCRC, 64, 0, 0, 0
		f := make([]byte, ethertype.HeaderSize+64)
		h.Put(f)
		ethertype.Seal(f)
		m.Right = append(m.Right, f)
	}
}

// unshared returns the frames that share an Ethernet frame, each as it is alone.
func unshared(frame []byte) (frames [][]byte) {
	for frame != nil {
		var h ethertype.Header
		payload, err := h.Parse(frame)
		if err != nil {
			return append(frames, bytes.Clone(frame))
		}
		f := bytes.Clone(frame[:ethertype.HeaderSize+len(payload)])
		frame = h.Next(frame)
		h.Flags &^= ethertype.FlagMore
		h.Put(f)
		ethertype.Seal(f)
		frames = append(frames, f)
	}
	return frames
}

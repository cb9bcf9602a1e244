package vipl_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestFastPath has two pairs of VIs do the same, and get the same frames from a
// hostile neighbour. One takes the fast path where there is one. The other is kept from
// it: its memory is in two pieces, and it is made to forget which header it predicts. All
// that can be seen of them, the frames on the wire before all, must be the same.
func TestFastPath(t *testing.T) {
	var took uint64
	seeds(t, 200, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 7))
		level := levels[1+rng.IntN(2)] // the reliable ones
		short, general := newShortWorld(t, level, 1), newShortWorld(t, level, 2)
		short.bias = 1 + rng.IntN(19)
		for i := range 200 {
			op := pickShortOp(rng, short)
			if a, b := short.do(op), general.do(op); a != b {
				return fmt.Errorf("seed %d, operation %d, %+v: the fast path has\n%s\nand the general one\n%s", seed, i, op, a, b)
			}
		}
		for _, e := range general.ends {
			if n := e.vi.NIC().Short(); n > 0 {
				return fmt.Errorf("seed %d: %d messages in pieces went by the fast path", seed, n)
			}
		}
		took += short.ends[0].vi.NIC().Short() + short.ends[1].vi.NIC().Short()
		return nil
	})
	if took == 0 {
		t.Error("nothing went by the fast path")
	}
}

// shortWorld is a connected pair of VIs and what can be seen of it.
type shortWorld struct {
	ends [2]*shortEnd
	bias int // of 20 operations so many at the first end
	seen bytes.Buffer
}

type shortEnd struct {
	vi      *vipl.VI
	link    *memLink
	last    []byte // frame to it
	pieces  int    // of each buffer
	lent    []byte // for the peer to read and to write
	where   vipl.RemoteSegment
	out     *buffers
	next    int // of out
	sending int // of these
	in      *buffers
	idle    []*vipl.Descriptor // of in, not posted
	room    int                // receives posted and not yet sent to
}

const shortDepth = 24

// shortSize is the size of the receives; some messages are longer.
const shortSize = 280

func newShortWorld(t *testing.T, level reliability.Level, pieces int) *shortWorld {
	w := &shortWorld{}
	la, lb := memPair(1500)
	a, b := memVIsOver(t, la, lb, level)
	for i, e := range []*shortEnd{{vi: a, link: la}, {vi: b, link: lb}} {
		w.ends[i] = e
		e.pieces = pieces
		e.link.onSend = func(frame []byte) {
			peer := w.ends[1-i]
			peer.last = move(bytes.Clone(frame), -peer.where.Addr)
			fmt.Fprintf(&w.seen, "%d sends %x\n", i, peer.last)
		}
		e.lent = make([]byte, 2*shortSize)
		h, err := e.vi.NIC().RegisterMem(e.lent, &vipl.MemAttributes{EnableRDMARead: true, EnableRDMAWrite: true})
		if err != nil {
			t.Fatal(err)
		}
		e.where = vipl.RemoteSegment{Addr: vipl.VirtualAddress(e.lent), Handle: h}
		if e.out, err = newBuffers(e.vi.NIC(), shortDepth, shortSize+8); err != nil {
			t.Fatal(err)
		}
		if e.in, err = newBuffers(e.vi.NIC(), shortDepth, shortSize); err != nil {
			t.Fatal(err)
		}
		for j := range e.in.descs {
			e.in.descs[j].Segs = e.segments(e.in, j, shortSize)
			e.idle = append(e.idle, &e.in.descs[j])
		}
	}
	return w
}

// move changes the address of a frame that reads or writes: the memory that is lent lies
// elsewhere in each world, so that frames are shown, and forged, relative to it.
func move(frame []byte, by uint64) []byte {
	frame = bytes.Clone(frame)
	for f := frame; f != nil; { // those that share it, too
		var h ethertype.Header
		payload, err := h.Parse(f)
		if err != nil {
			break
		}
		if h.Kind == ethertype.KindRDMARead || h.Kind == ethertype.KindRDMAWrite {
			r, _ := ethertype.ParseRDMA(payload)
			r.Addr += by
			r.Put(f[ethertype.HeaderSize:])
			ethertype.Seal(f[:ethertype.HeaderSize+len(payload)])
		}
		f = h.Next(f)
	}
	return frame
}

// segments names n bytes of buffer i.
func (e *shortEnd) segments(b *buffers, i, n int) []vipl.Segment {
	data := b.data(i)[:n]
	if e.pieces == 1 {
		return []vipl.Segment{{Data: data, Handle: b.h}}
	}
	return []vipl.Segment{{Data: data[:n/3], Handle: b.h}, {Data: data[n/3:], Handle: b.h}}
}

// shortOp is something to be done in both worlds.
type shortOp struct {
	what string
	end  int
	size int
	imm  bool
	bad  bool // a read or a write of what is not lent
	// The reads or writes before it, each of which has time for its answer.
	rounds int
	look   bool // at the counters afterwards, which has what is late done
	frame  []byte
}

// pickShortOp picks what to do next. Frames are forged after those that have gone
// by in w.
func pickShortOp(rng *rand.Rand, w *shortWorld) shortOp {
	op := shortOp{look: rng.IntN(8) == 0}
	if rng.IntN(20) >= w.bias {
		op.end = 1
	}
	switch k := rng.IntN(100); {
	case k < 40:
		op.what, op.size, op.imm = "send", rng.IntN(70), rng.IntN(5) == 0
		if rng.IntN(2) == 0 {
			op.size = min(rng.IntN(2*shortSize), shortSize)
		}
		if rng.IntN(100) == 0 { // longer than a receive, or maybe without one: the end
			op.size = shortSize + 1
		} else if w.ends[1-op.end].room == 0 && rng.IntN(100) > 0 {
			op.what, op.end = "post", 1-op.end
		}
	case k < 60:
		op.what, op.size, op.bad = []string{"read", "write"}[rng.IntN(2)], rng.IntN(rng.IntN(shortSize)+1), rng.IntN(200) == 0
		op.rounds = rng.IntN(6)
	case k < 84:
		op.what = "receive"
	case k < 92:
		op.what = "post"
	case k < 94:
		op.what, op.size = "sleep", rng.IntN(1<<rng.IntN(22))
	default:
		if last := w.ends[op.end].last; last != nil {
			op.what, op.size, op.frame = "forge", rng.IntN(3), forgeShort(rng, last, w.ends[1-op.end].last)
			break
		}
		op.what = "receive"
	}
	return op
}

// forgeShort makes the frame that follows one, mostly, with one or two mistakes.
// Often it acknowledges what the receiver has sent last.
func forgeShort(rng *rand.Rand, frame, sent []byte) []byte {
	var h ethertype.Header
	payload, err := h.Parse(frame)
	if err != nil {
		return frame
	}
	if rng.IntN(12) > 0 {
		h.Seq++
		h.Msg++
	}
	var back ethertype.Header
	if _, err := back.Parse(sent); err == nil && back.Kind.Sequenced() && rng.IntN(2) == 0 {
		h.Ack = back.Seq + 1
	}
	h.Flags &^= ethertype.FlagMore
	for range rng.IntN(3) {
		spoil(rng, &h)
	}
	b := make([]byte, ethertype.HeaderSize)
	h.Put(b)
	b = append(b, payload...)
	ethertype.Seal(b)
	if rng.IntN(12) == 0 {
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
	return b[:len(b)-rng.IntN(9)/8]
}

// following returns the frame behind one.
func following(frame []byte) []byte {
	var h ethertype.Header
	payload, err := h.Parse(frame)
	if err != nil {
		return frame
	}
	h.Seq++
	h.Msg++
	h.Flags &^= ethertype.FlagMore
	b := make([]byte, ethertype.HeaderSize)
	h.Put(b)
	b = append(b, payload...)
	ethertype.Seal(b)
	return b
}

// spoil changes a field.
func spoil(rng *rand.Rand, h *ethertype.Header) {
	little := func() uint32 { return uint32(rng.IntN(4)) - 1 }
	switch rng.IntN(13) {
	case 0:
		h.Flags ^= 1 << rng.IntN(9)
	case 1:
		h.Ack += ethertype.Seq(little())
	case 2:
		h.Sack = rng.Uint64() >> rng.IntN(64)
	case 3:
		h.Offset += little()
	case 4:
		h.Length += little()
	case 5:
		h.Size += uint16(little())
	case 6:
		h.Count += uint16(little())
	case 7:
		h.Tag += little()
	case 8:
		h.SrcPort += uint16(little())
	case 9:
		h.Kind = ethertype.Kind(rng.IntN(18))
	case 10:
		h.Src[rng.IntN(6)] ^= 1
	case 11:
		h.Msg += ethertype.Seq(little())
	case 12:
		h.Seq += ethertype.Seq(little())
		h.Msg += ethertype.Seq(little())
	}
}

// do does op and returns what could be seen.
func (w *shortWorld) do(op shortOp) string {
	w.seen.Reset()
	e := w.ends[op.end]
	w.forget(e)
	switch op.what {
	case "send":
		w.send(e, &op)
	case "read", "write":
		for range op.rounds {
			before := op
			before.bad = false
			w.send(e, &before)
			for _, turn := range []*shortEnd{w.ends[1-op.end], e} {
				w.forget(turn)
				turn.vi.NIC().Poll()
			}
		}
		w.forget(e)
		w.send(e, &op)
	case "receive":
		d, err := e.vi.RecvDone()
		if fmt.Fprintln(&w.seen, err); d != nil {
			fmt.Fprintf(&w.seen, "%v %d %v %d %x\n", d.Status, d.Length, d.HasImmediate, d.Immediate, e.in.data(d.Context.(int))[:d.Length])
			e.idle = append(e.idle, d)
		}
	case "post":
		for _, d := range e.idle {
			fmt.Fprintln(&w.seen, e.vi.PostRecv(d))
			e.room++
		}
		e.idle = nil
	case "sleep":
		*e.link.clock += int64(op.size)
		e.vi.NIC().Poll()
	case "forge":
		for range op.size + 1 { // like the one before, and the next
			e.link.peer.Send([]transport.Frame{{Head: move(op.frame, e.where.Addr)}})
			w.forget(e)
			e.vi.NIC().Poll()
			op.frame = following(op.frame)
		}
	}
	if op.look {
		w.look(e)
	}
	for _, e := range w.ends {
		fmt.Fprintf(&w.seen, "%08x\n", crc32.ChecksumIEEE(e.lent))
	}
	return w.seen.String()
}

// forget keeps the general world from the fast path.
func (w *shortWorld) forget(e *shortEnd) {
	if e.pieces > 1 {
		e.vi.ForgetPrediction()
	}
}

// send sends a message, or reads or writes, if there is a descriptor for it.
func (w *shortWorld) send(e *shortEnd, op *shortOp) {
	if d, err := e.vi.SendDone(); d != nil {
		fmt.Fprintln(&w.seen, d.Status, d.Length, err)
		if d.Op == vipl.OpRDMARead {
			fmt.Fprintf(&w.seen, "%x\n", e.out.data(d.Context.(int))[:d.Length])
		}
		e.sending--
	}
	if e.sending == shortDepth {
		return
	}
	d, peer := &e.out.descs[e.next], w.ends[1-op.end]
	d.Segs = e.segments(e.out, e.next, op.size)
	if op.what == "read" {
		d.Op, d.Remote, d.HasImmediate = vipl.OpRDMARead, peer.where, false
		content(uint64(e.next), op.end, peer.lent)
		if d.Remote.Addr += uint64(op.size % 5); op.bad {
			d.Remote.Handle++
		}
	} else if op.what == "write" {
		d.Op, d.Remote, d.HasImmediate = vipl.OpRDMAWrite, peer.where, false
		content(uint64(e.next), op.end, e.out.data(e.next))
		if d.Remote.Addr += uint64(op.size % 5); op.bad {
			d.Remote.Handle++
		}
	} else {
		content(uint64(op.size), op.end, e.out.data(e.next))
		d.Op, d.HasImmediate, d.Immediate = vipl.OpSend, op.imm, 7
		peer.room--
	}
	e.next = (e.next + 1) % shortDepth
	e.sending++
	fmt.Fprintln(&w.seen, e.vi.PostSend(d))
}

func (w *shortWorld) look(e *shortEnd) {
	e.vi.NIC().FindTimer()
	s := e.vi.NIC().Snapshot()
	s.Attributes = vipl.NICAttributes{}
	for i := range s.VIs {
		if a := s.VIs[i].Arriving; a != nil {
			fmt.Fprintf(&w.seen, "arriving %+v\n", *a)
			s.VIs[i].Arriving = nil
		}
	}
	fmt.Fprintf(&w.seen, "%+v\n", s)
}

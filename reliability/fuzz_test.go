package reliability

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// tape reads the numbers of which a fuzz input makes operations.
type tape struct{ b []byte }

func (t *tape) more() bool { return len(t.b) > 0 }

func (t *tape) byte() byte {
	if len(t.b) == 0 {
		return 0
	}
	v := t.b[0]
	t.b = t.b[1:]
	return v
}

func (t *tape) uint16() uint16 { return uint16(t.byte())<<8 | uint16(t.byte()) }
func (t *tape) uint32() uint32 { return uint32(t.uint16())<<16 | uint32(t.uint16()) }

func fuzzSeeds(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xfe, 0, 9, 0, 1, 5, 1, 4, 2, 0, 0, 9, 3, 200, 5, 6, 0, 3})
	long := make([]byte, 0, 1024)
	for i := range uint32(256) {
		long = binary.BigEndian.AppendUint32(long, i*2654435761)
	}
	f.Add(long)
}

// FuzzReceiver compares a Receiver with the set of frames it has taken.
func FuzzReceiver(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		in := tape{input}
		var r Receiver
		var now int64
		first := ethertype.Seq(in.uint32())
		r.Init(&Config{AckEvery: 3}, first)
		next, taken := first, map[ethertype.Seq]bool{}
		for in.more() {
			op := in.byte()
			seq := next + ethertype.Seq(op>>3)
			switch op & 7 {
			case 0:
				seq = next + ethertype.Seq(int16(in.uint16()))
			case 1:
				seq = ethertype.Seq(in.uint32())
			case 2:
				r.AckSent(now, op&8 != 0)
				if r.AckDue(now) || r.Deadline() != never {
					t.Fatal("an acknowledgement is due after it was sent")
				}
				continue
			case 3:
				now += int64(in.uint16()) * 8
				continue
			}
			want := Accept
			switch d := seq.Sub(next); {
			case d < 0 || taken[seq]:
				want = Duplicate
			case d >= MaxWindow:
				want = Ahead
			}
			if got := r.Check(seq); got != want {
				t.Fatalf("frame next%+d: %v, want %v", seq.Sub(next), got, want)
			}
			switch want {
			case Accept:
				r.Accept(now, seq, op&8 != 0, op&16 != 0)
				if r.Deadline() > now+talkDelay {
					t.Fatal("an acknowledgement may wait for longer than it ever should")
				}
				taken[seq] = true
				for ; taken[next]; next++ {
					delete(taken, next)
				}
			case Duplicate:
				r.Duplicate()
			}
			checkAcks(t, &r, next, taken)
			if want != Ahead && r.Deadline() == never {
				t.Fatal("a frame arrived and no acknowledgement will go")
			}
		}
	})
}

// checkAcks compares what r acknowledges with the set of what it has taken.
func checkAcks(t *testing.T, r *Receiver, next ethertype.Seq, taken map[ethertype.Seq]bool) {
	t.Helper()
	ack, sack := r.Ack()
	if ack != next || r.Next() != next {
		t.Fatalf("acknowledges %d, want %d", ack, next)
	}
	more := r.AppendSack(nil)
	if len(more) > MaxSack || len(more)%8 != 0 {
		t.Fatalf("%d bytes of further bits", len(more))
	}
	seqs := listSack(ack, sack, more)
	if len(seqs) != len(taken) {
		t.Fatalf("%d bits for %d frames", len(seqs), len(taken))
	}
	for _, seq := range seqs {
		if !taken[seq] {
			t.Fatalf("a bit for %d, which was not taken", seq.Sub(ack))
		}
	}
}

// listSack returns the frames that the bits behind ack stand for, in order.
func listSack(ack ethertype.Seq, sack uint64, more []byte) (seqs []ethertype.Seq) {
	for i := -8; i < len(more); i += 8 {
		word, first := sack, ack+1
		if i >= 0 {
			word, first = binary.BigEndian.Uint64(more[i:]), ack+65+ethertype.Seq(8*i)
		}
		for bit := ethertype.Seq(0); word != 0; word, bit = word>>1, bit+1 {
			if word&1 != 0 {
				seqs = append(seqs, first+bit)
			}
		}
	}
	return seqs
}

// senderOracle is a Sender beside the set of what has been acknowledged to it.
type senderOracle struct {
	*testing.T
	Sender
	now   int64
	first ethertype.Seq
	una   ethertype.Seq
	nxt   ethertype.Seq
	acked map[ethertype.Seq]bool
	dead  bool
}

// FuzzSender drives a Sender with operations and acknowledgements of any kind,
// honest or not, and compares it with a set.
func FuzzSender(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		in := tape{input}
		first := ethertype.Seq(in.uint32())
		cfg := &Config{Window: 1 + int(in.uint16())%MaxWindow}
		s := &senderOracle{T: t, now: 1, first: first, una: first, nxt: first, acked: map[ethertype.Seq]bool{}}
		s.Init(cfg, first)
		for in.more() && !s.dead {
			s.step(&in)
			s.check()
		}
		if s.dead {
			return
		}
		s.ack(s.nxt, 0, nil)
		s.check()
		if s.InFlight() != 0 || s.Sender.Deadline() == s.rec.timeoutAt && s.rec.timeoutAt != never {
			t.Fatalf("all is acknowledged, and %d are in flight until %d", s.InFlight(), s.Sender.Deadline())
		}
	})
}

func (s *senderOracle) step(in *tape) {
	switch op := in.byte(); op & 7 {
	case 0, 1:
		for n := int(op >> 3); n >= 0 && s.Room(s.now) > 0; n-- {
			seq, _ := s.Push(s.now, Sent{First: s.nxt, Offset: uint32(s.nxt - s.first)}, false)
			if seq != s.nxt {
				s.Fatalf("pushed as %d, want %d", seq, s.nxt)
			}
			s.nxt++
		}
	case 2:
		s.now += int64(in.uint16()) * 100
	case 3:
		if at := s.Sender.Deadline(); at != never {
			s.now = max(s.now, at)
		}
		s.dead = s.OnTimer(s.now) != nil
	case 4:
		sent, seq, ok := s.Retransmit(s.now)
		if ok && (seq.Less(s.una) || !seq.Less(s.nxt) || s.acked[seq] || sent.First != seq) {
			s.Fatalf("sends %d again, of %d to %d; %+v", seq, s.una, s.nxt, sent)
		}
	case 5: // in order
		s.ack(s.una+ethertype.Seq(op>>3)%(s.nxt-s.una+1), 0, nil)
	case 6: // with holes
		more := make([]byte, int(op>>3)%16*8)
		for i := range more {
			more[i] = in.byte()
		}
		s.ack(s.una+ethertype.Seq(in.byte()%4), uint64(in.uint32())<<in.byte(), more)
	case 7: // anything
		s.ack(ethertype.Seq(in.uint32()), uint64(in.uint32())<<(op>>3), nil)
	}
}

// ack passes an acknowledgement on and does with the set what it says.
func (s *senderOracle) ack(ack ethertype.Seq, sack uint64, more []byte) {
	bits := listSack(ack, sack, more)
	honest := ack.Sub(s.nxt) <= 0 && ack.Sub(s.una) >= -ackHistory && len(more) <= MaxSack
	if len(bits) > 0 && bits[len(bits)-1].Sub(ack) >= s.nxt.Sub(ack) {
		honest = false
	}
	before := s.Sender.Stats()
	progress, valid := s.OnAck(s.now, ack, sack, more)
	if valid != honest {
		s.Fatalf("valid: %v, want %v", valid, honest)
	}
	if !honest {
		after := s.Sender.Stats()
		after.Invalid--
		if after != before {
			s.Fatalf("an invalid acknowledgement changed %+v to %+v", before, after)
		}
		return
	}
	news := false
	if s.una.LessEq(ack) {
		for seq := s.una; seq != ack; seq++ {
			news = news || !s.acked[seq]
			delete(s.acked, seq)
		}
		s.una = ack
		for _, seq := range bits {
			news = news || !s.acked[seq]
			s.acked[seq] = true
		}
		for ; s.acked[s.una]; s.una++ {
			delete(s.acked, s.una)
		}
	}
	if progress != news {
		s.Fatalf("progress: %v, want %v", progress, news)
	}
}

func (s *senderOracle) check() {
	if s.Una() != s.una || s.NextSeq() != s.nxt {
		s.Fatalf("from %d to %d, want %d to %d", s.Una(), s.NextSeq(), s.una, s.nxt)
	}
	if n := int(s.out.n) + int(s.lost.n) + len(s.acked); n != s.InFlight() {
		s.Fatalf("%d under way, %d lost and %d acknowledged make not %d", s.out.n, s.lost.n, len(s.acked), s.InFlight())
	}
	for seq := s.una; seq != s.nxt; seq++ {
		if s.Acked(seq, seq) != s.acked[seq] {
			s.Fatalf("%d acknowledged: %v", seq, !s.acked[seq])
		}
	}
	lastOrder := uint32(0)
	for seq, n := s.full(s.out.head), s.out.n; n > 0; n-- {
		slot := s.ring.at(seq)
		if slot.state != stateOut || slot.order <= lastOrder {
			s.Fatalf("the queue of frames under way is broken at %d", seq)
		}
		lastOrder, seq = slot.order, s.full(slot.next)
	}
	if w := s.cc.window; w < minCwnd || w > s.cc.limit {
		s.Fatalf("congestion window %d", w)
	}
	if s.una != s.nxt && !s.dead && s.Sender.Deadline() == math.MaxInt64 {
		s.Fatal("frames in flight and no deadline")
	}
}

// TestFilter compares a Filter with the rule it stands for.
func TestFilter(t *testing.T) {
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		rng := newWorld(seed, nil).rng
		first := ethertype.Seq(rng.Uint32())
		var f Filter
		f.Init(first)
		top, taken := first, map[ethertype.Seq]bool{}
		last, run, moves := ethertype.Seq(0), 0, 0
		for range 5000 {
			seq := top + ethertype.Seq(rng.IntN(600)-400)
			switch rng.IntN(20) {
			case 0:
				seq = top + ethertype.Seq(rng.IntN(1<<30))
			case 1, 2, 3, 4, 5:
				seq = last + ethertype.Seq(rng.IntN(3))
			}
			d := seq.Sub(top)
			want, far := Accept, d < -filterWindow || d >= filterWindow
			switch {
			case d >= filterWindow:
				want = Ahead
			case far || taken[seq] || seq.Less(first):
				want = Duplicate
			}
			if got := f.Check(seq); got != want {
				t.Fatalf("frame top%+d: %v, want %v", d, got, want)
			}
			move := false
			switch {
			case !far:
				run = 0
			case run > 0 && last.Less(seq) && seq.Sub(last) <= filterWindow:
				run++
				move = run == filterRun
			default:
				run = 1
			}
			if far {
				last = seq
			}
			if want != Accept {
				if got := f.Refuse(seq); got != move {
					t.Fatalf("frame top%+d, number %d outside the window: moved %v", d, run, got)
				}
			} else {
				f.Accept(seq)
			}
			if move {
				top, first, run, taken = seq, seq, 0, map[ethertype.Seq]bool{}
				moves++
			}
			if move || want == Accept {
				taken[seq] = true
				if !seq.Less(top) {
					top = seq + 1
				}
			}
			if first.Less(top - 2*filterWindow) {
				first = top - 2*filterWindow
			}
		}
		if moves == 0 {
			t.Error("the window has never moved: the test tests little")
		}
	})
}

// TestFilterRecovers: one frame with a wrong number has none of the good ones that
// follow refused, and several lose only a few.
func TestFilterRecovers(t *testing.T) {
	for forged := range 3 * filterRun {
		var f Filter
		f.Init(100)
		take := func(seq ethertype.Seq) bool {
			if f.Check(seq) != Accept {
				return f.Refuse(seq)
			}
			f.Accept(seq)
			return true
		}
		for seq := ethertype.Seq(100); seq < 110; seq++ {
			if !take(seq) {
				t.Fatalf("frame %d is refused", seq)
			}
		}
		for i := range forged {
			take(110 + 1<<30 + ethertype.Seq(i))
		}
		refused := 0
		for seq := ethertype.Seq(110); seq < 200; seq++ {
			if !take(seq) {
				refused++
			}
		}
		if forged < filterRun && refused > 0 || refused >= filterRun {
			t.Errorf("after %d forged frames %d good ones are refused", forged, refused)
		}
	}
}

// TestWindows: the numbers that belong to a connection.
func TestWindows(t *testing.T) {
	const next = ethertype.Seq(1 << 31)
	var r Receiver
	r.Init(nil, next)
	for d, want := range map[int]bool{-MaxWindow - 1: false, -MaxWindow: true, 0: true, MaxWindow: true, MaxWindow + 1: false, 1 << 30: false, -1 << 31: false} {
		if got := r.InWindow(next + ethertype.Seq(d)); got != want {
			t.Errorf("frame next%+d is in the window: %v", d, got)
		}
	}
	for d, want := range map[int]bool{-MaxWindow - 1: false, -MaxWindow: true, 0: true, 1: true, 2: false, 1 << 30: false, -1 << 31: false} {
		var s Sender
		s.Init(nil, next)
		s.Push(1, Sent{Count: 1}, false)
		if got := s.InWindow(next + ethertype.Seq(d)); got != want {
			t.Errorf("acknowledgement una%+d is in the window: %v", d, got)
		}
		if _, valid := s.OnAck(1, next+ethertype.Seq(d), 0, nil); valid != want {
			t.Errorf("acknowledgement una%+d is valid: %v", d, valid)
		}
	}
}

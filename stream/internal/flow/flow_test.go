package flow_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
)

var seeds = seedtest.Flags("stream/internal/flow", 10).Each

// pipe is one direction of a stream with delayed messages in order. It also records the bytes that
// were written and read.
type pipe struct {
	rng      *rand.Rand
	out      flow.Sender
	stage    flow.Stage
	staged   []byte
	in       flow.Receiver
	ring     []byte
	words    []flow.Word // in flight to the receiver
	credits  []flow.Word // in flight to the sender
	inFlight []int       // bytes of the stage in each unacknowledged message
	went     []byte
	came     []byte
	next     byte
}

func newPipe(rng *rand.Rand) *pipe {
	ring := flow.MinRing + rng.IntN(10000)
	p := &pipe{rng: rng, ring: make([]byte, ring), staged: make([]byte, 1+rng.IntN(9000))}
	p.out, p.in, p.stage = flow.NewSender(uint32(ring)), flow.NewReceiver(uint32(ring)), flow.NewStage(len(p.staged))
	return p
}

func (p *pipe) write() {
	at, n := p.stage.Free()
	if n == 0 {
		return
	}
	n = 1 + p.rng.IntN(n)
	for i := range n {
		p.next++
		p.staged[at+i] = p.next
		p.went = append(p.went, p.next)
	}
	p.stage.Wrote(n)
}

func (p *pipe) post() {
	from, n := p.stage.Pending()
	to, room := p.out.Space()
	n = min(n, int(room))
	if n == 0 {
		return
	}
	n = 1 + p.rng.IntN(n)
	copy(p.ring[to:], p.staged[from:from+n])
	p.stage.Posted(n)
	p.inFlight = append(p.inFlight, n)
	p.words = append(p.words, p.out.Sent(uint32(n)))
}

func (p *pipe) arrive() error {
	if len(p.words) == 0 {
		return nil
	}
	w := p.words[0]
	p.words = p.words[1:]
	p.stage.Released(p.inFlight[0])
	p.inFlight = p.inFlight[1:]
	return p.in.Arrived(w, w.Bytes())
}

func (p *pipe) read() {
	at, n := p.in.Readable()
	if n == 0 {
		return
	}
	n = 1 + p.rng.Uint32N(n)
	p.came = append(p.came, p.ring[at:at+n]...)
	p.in.Consumed(n)
}

func (p *pipe) credit() {
	if p.in.Due() {
		p.credits = append(p.credits, p.in.Credit())
	}
}

func (p *pipe) step() (err error) {
	switch p.rng.IntN(6) {
	case 0:
		p.write()
	case 1:
		p.post()
	case 2:
		err = p.arrive()
	case 3:
		p.read()
	case 4:
		p.credit()
	case 5:
		if len(p.credits) > 0 {
			err = p.out.Credited(p.credits[0])
			p.credits = p.credits[1:]
		}
	}
	if len(p.credits) > flow.Reserve-2 {
		return errors.New("more credits under way than receives are reserved")
	}
	return err
}

// TestPipe: in any order of permitted steps at both ends, the reader gets the bytes that were
// written, and the stream never blocks forever.
func TestPipe(t *testing.T) {
	seeds(t, 60, func(seed uint64) error {
		p := newPipe(rand.New(rand.NewPCG(seed, 1)))
		for range 20000 {
			if err := p.step(); err != nil {
				return err
			}
		}
		if err := p.drain(); err != nil {
			return err
		}
		if !bytes.Equal(p.came, p.went) {
			return fmt.Errorf("seed %d: %d bytes went in and others came out", seed, len(p.went))
		}
		if len(p.went) < 10_000 {
			return fmt.Errorf("seed %d: only %d bytes in 20,000 steps", seed, len(p.went))
		}
		return nil
	})
}

// drain continues until all written bytes have been read.
func (p *pipe) drain() error {
	for i := 0; len(p.came) < len(p.went); i++ {
		if i == 10_000_000 {
			return fmt.Errorf("it stands still: %d bytes went in, %d came out", len(p.went), len(p.came))
		}
		p.post()
		if err := p.arrive(); err != nil {
			return err
		}
		p.read()
		p.credit()
		for ; len(p.credits) > 0; p.credits = p.credits[1:] {
			if err := p.out.Credited(p.credits[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestForgedWords(t *testing.T) {
	in, out := flow.NewReceiver(flow.MinRing), flow.NewSender(flow.MinRing)
	out.Sent(100)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, flow.ErrPeer) {
			t.Errorf("%s: %v, want an ErrPeer", name, err)
		}
	}
	refused("more than the ring", in.Arrived(flow.DataWord(flow.MinRing+1), flow.MinRing+1))
	refused("nothing", in.Arrived(flow.DataWord(0), 0))
	refused("another length than was written", in.Arrived(flow.DataWord(10), 11))
	if err := in.Arrived(flow.DataWord(flow.MinRing-1), flow.MinRing-1); err != nil {
		t.Fatal(err)
	}
	refused("over what is unread", in.Arrived(flow.DataWord(2), 2))
	credit := flow.Word(flow.Credit) << 30
	refused("credit for bytes that nobody sent", out.Credited(credit|1<<22|101))
	refused("credit for messages that nobody sent", out.Credited(credit|2<<22|100))
	refused("no credit", out.Credited(credit))
	if err := out.Credited(credit | 1<<22 | 100); err != nil {
		t.Fatal(err)
	}
	refused("the same credit again", out.Credited(credit|1<<22|100))
	refused("an end with data", in.End(flow.EndWord, 1))
	if err := in.End(flow.EndWord, 0); err != nil {
		t.Fatal(err)
	}
	refused("a second end", in.End(flow.EndWord, 0))
	refused("data behind the end", in.Arrived(flow.DataWord(1), 1))
}

// TestMessagesBound: after Depth small messages without a credit, the sender has no space, and the
// receiver rejects another message.
func TestMessagesBound(t *testing.T) {
	in, out := flow.NewReceiver(flow.MaxRing), flow.NewSender(flow.MaxRing)
	for i := range flow.Depth {
		if _, n := out.Space(); n == 0 {
			t.Fatalf("no space after %d messages", i)
		}
		if err := in.Arrived(out.Sent(1), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, n := out.Space(); n != 0 {
		t.Errorf("space for %d bytes after %d messages without credit", n, flow.Depth)
	}
	if err := in.Arrived(flow.DataWord(1), 1); !errors.Is(err, flow.ErrPeer) {
		t.Errorf("one message more: %v", err)
	}
	if !in.Due() {
		t.Error("no credit is due")
	}
	if err := out.Credited(in.Credit()); err != nil {
		t.Error(err)
	}
	if _, n := out.Space(); n == 0 {
		t.Error("no space after the credit")
	}
}

// TestNoCreditBehindEnd: a sender that has ended gets no credit, because its connection may be
// closed.
func TestNoCreditBehindEnd(t *testing.T) {
	in := flow.NewReceiver(flow.MinRing)
	if err := in.Arrived(flow.DataWord(flow.MinRing), flow.MinRing); err != nil {
		t.Fatal(err)
	}
	if err := in.End(flow.EndWord, 0); err != nil {
		t.Fatal(err)
	}
	in.Consumed(flow.MinRing)
	if in.Due() {
		t.Error("credit is due behind the end of the stream")
	}
}

// FuzzReceive: no sequence of words moves the counters out of their bounds.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0x40, 0, 0, 9, 0x80, 0x40, 0, 9, 0xc0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, out := flow.NewReceiver(flow.MinRing), flow.NewSender(flow.MinRing)
		for ; len(b) >= 4; b = b[4:] {
			w := flow.Word(b[0])<<24 | flow.Word(b[1])<<16 | flow.Word(b[2])<<8 | flow.Word(b[3])
			switch w.Kind() {
			case flow.Data:
				in.Arrived(w, w.Bytes())
				if at, n := in.Readable(); at+n > flow.MinRing {
					t.Fatalf("%d bytes at %d", n, at)
				} else {
					in.Consumed(n / 2)
				}
			case flow.Credit:
				if _, n := out.Space(); n > 0 {
					out.Sent(1 + n/2)
				}
				out.Credited(w)
				if at, n := out.Space(); at+n > flow.MinRing {
					t.Fatalf("space for %d bytes at %d", n, at)
				}
			case flow.End:
				in.End(w, 0)
			}
			if in.Unread() > flow.MinRing || out.Unread() > flow.MinRing {
				t.Fatalf("%d and %d bytes are unread", in.Unread(), out.Unread())
			}
			if in.Due() {
				in.Credit()
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	var b [flow.HelloSize]byte
	(&flow.Hello{Size: flow.MinRing, Handle: 7, Addr: 4096}).Put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := flow.ParseHello(b)
		if err != nil {
			return
		}
		var again [flow.HelloSize]byte
		h.Put(again[:])
		if !bytes.Equal(again[:], b) {
			t.Fatalf("% x is parsed as %+v, which is % x", b, h, again)
		}
	})
}

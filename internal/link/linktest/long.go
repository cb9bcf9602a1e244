package linktest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// startLong enables long frames on A and B, and returns B, or ends the test.
func (s *suite) startLong() transport.LongLink {
	a, _ := s.A.(transport.LongLink)
	b, _ := s.B.(transport.LongLink)
	if s.SameHost || a == nil || b == nil || !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
		s.Skip("the link carries no long frames here")
	}
	return b
}

// longest returns the largest payload of a long frame.
func (s *suite) longest() int {
	return optional.LongMTU(s.A) + ethertype.EthernetSize - ethertype.HeaderSize
}

// long returns a long frame from A to B in parts.
func (s *suite) long(size, seed int) transport.Frame {
	payload := pattern(size, seed)
	f := s.frame(payload[:2])
	return transport.Frame{Head: f.Head, Body: [][]byte{payload[2:3], nil, payload[3:700], payload[700:]}}
}

// begin receives the beginning of a long frame, which must be the next one at B.
func (s *suite) begin(b transport.LongLink, views [][]byte) []byte {
	s.Helper()
	for end := b.Now() + patience; ; {
		n, err := b.Recv(views)
		switch {
		case err != nil:
			s.Fatalf("Recv: %v", err)
		case n == 1 && b.Rest() > 0:
			return views[0]
		case n > 0:
			s.Fatalf("%d frames arrived, the first of %d bytes; want the beginning of a long one", n, len(views[0]))
		case b.Now() >= end:
			s.Fatalf("no frame arrived; counters: %+v", b.Stats())
		}
		if err := b.Wait(end); err != nil {
			s.Fatalf("Wait: %v", err)
		}
	}
}

// longFrames sends long frames of several sizes among others. All arrive in order, and the fetched
// ones completely.
func (s *suite) longFrames() {
	b := s.startLong()
	views := make([][]byte, transport.MaxBatch)
	short := s.frame(pattern(9, 1))
	for i, size := range []int{s.maxPayload() + 1, s.maxPayload() + 2, 20_000, 61_440, s.longest() - 1, s.longest()} {
		f := s.long(size, i)
		sent := f.AppendTo(nil)
		s.send(short, f, short)
		s.expect(b, short)
		view := s.begin(b, views)
		if len(view) < transport.LongBegin || len(view)+b.Rest() != len(sent) || !bytes.HasPrefix(sent, view) {
			s.Fatalf("size %d: the view has %d bytes, %d are missing of %d:\n%x\n%x", size, len(view), b.Rest(), len(sent), clip(view), clip(sent))
		}
		from := []int{ethertype.HeaderSize, ethertype.HeaderSize + 4, ethertype.HeaderSize + 16, 100, len(view) - 1, len(view)}[i]
		got := make([]byte, len(sent)-from)
		if !b.Fetch(from, [][]byte{got[:1], nil, got[1:999], got[999:]}) {
			s.Fatalf("size %d: not fetched", size)
		}
		if !bytes.Equal(got, sent[from:]) {
			s.Fatalf("size %d: fetched from %d on:\n%x\nsent\n%x", size, from, clip(got), clip(sent[from:]))
		}
		if b.Rest() != 0 || b.Fetch(from, [][]byte{got}) {
			s.Errorf("size %d: fetched twice", size)
		}
		s.expect(b, short)
	}
}

// longDropped does not fetch long frames, or fetches more than they hold. Later frames still
// arrive.
func (s *suite) longDropped() {
	b := s.startLong()
	views := make([][]byte, transport.MaxBatch)
	for i := range 50 {
		first, second, short := s.long(s.maxPayload()+1+i, i), s.long(s.longest()-i, i+100), s.frame(pattern(i, 7))
		s.send(first, second, short)
		view := s.begin(b, views)
		if i%3 == 1 {
			if b.Fetch(len(view), [][]byte{make([]byte, b.Rest()+1)}) {
				s.Fatal("more was fetched than there is")
			}
		}
		view = s.begin(b, views)
		sent := second.AppendTo(nil)
		got := make([]byte, len(sent)-len(view))
		if i%2 == 0 && (!b.Fetch(len(view), [][]byte{got}) || !bytes.Equal(got, sent[len(view):])) {
			s.Fatalf("round %d: the frame behind one that was left is another", i)
		}
		s.expect(b, short)
	}
}

// longLimits sends frames that are too long even for long frames, and long frames on a link that
// has not enabled them.
func (s *suite) longLimits() {
	b := s.startLong()
	short := s.frame(pattern(3, 3))
	for _, bad := range []transport.Frame{s.long(s.longest()+1, 1), {Head: short.Head, Body: make([][]byte, transport.MaxBody+1)}} {
		if n, err := s.A.Send([]transport.Frame{short, bad}); n != 1 || !errors.Is(err, transport.ErrFrameSize) {
			s.Fatalf("Send = %d, %v; want 1, ErrFrameSize", n, err)
		}
		s.expect(b, short)
	}
	if s.C == nil {
		return
	}
	a := s.A.Info()
	f := NewFrame(s.C.Info(), a, a.Ports.Lo, pattern(s.maxPayload()+1, 1))
	if n, err := s.C.Send([]transport.Frame{{Head: f}}); n != 0 || !errors.Is(err, transport.ErrFrameSize) {
		s.Fatalf("Send of a link that has not been asked = %d, %v; want 0, ErrFrameSize", n, err)
	}
}

// longAllocations sends and fetches without allocating.
func (s *suite) longAllocations() {
	if s.Allocates {
		s.Skip("the link allocates by design")
	}
	b := s.startLong()
	frames := []transport.Frame{s.long(s.longest()-9, 1), s.long(s.maxPayload()+9, 2)}
	views, got := make([][]byte, 4), [][]byte{make([]byte, 40_000)}
	round := func() {
		s.send(frames...)
		s.begin(b, views)
		if !b.Fetch(transport.LongBegin, got) {
			s.Fatal("not fetched")
		}
		s.begin(b, views) // and leaves it
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		s.Errorf("%v allocations to send and receive two long frames", n)
	}
}

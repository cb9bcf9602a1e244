package linktest

import (
	"bytes"
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

func (s *suite) info() {
	a, b := s.A.Info(), s.B.Info()
	for _, i := range []transport.Info{a, b} {
		if i.Driver == "" || i.MAC == (ethertype.MAC{}) || i.EtherType == 0 || i.Ports.Lo == 0 ||
			i.Ports.Hi < i.Ports.Lo || i.MTU < ethertype.MinMTU || i.MTU > ethertype.MaxMTU {
			s.Errorf("Info lacks something: %+v", i)
		}
	}
	apart := a.MAC != b.MAC
	if s.SameHost {
		apart = a.MAC == b.MAC && !a.Ports.Contains(b.Ports.Lo) && !b.Ports.Contains(a.Ports.Lo)
	}
	if !apart || a.MTU != b.MTU || a.EtherType != b.EtherType {
		s.Errorf("A and B are not two stations of one segment:\n%+v\n%+v", a, b)
	}
	if t0, t1 := s.A.Now(), s.A.Now(); t0 == 0 || t1 < t0 {
		s.Errorf("Now: %d, then %d", t0, t1)
	}
}

// order sends frames in batches of every small size, and expects them in order.
func (s *suite) order() {
	seed := 0
	for round := range 100 {
		var batch []transport.Frame
		for range 1 + round%13 {
			seed++
			batch = append(batch, s.frame(pattern(min(1+seed%200, s.maxPayload()), seed)))
		}
		s.send(batch...)
		s.expect(s.B, batch...)
	}
}

// batch offers more frames than one call accepts.
func (s *suite) batch() {
	frames := make([]transport.Frame, transport.MaxBatch+6)
	for i := range frames {
		frames[i] = s.frame(pattern(min(32, s.maxPayload()), i))
	}
	if n, err := s.A.Send(nil); n != 0 || err != nil {
		s.Errorf("Send(nil) = %d, %v", n, err)
	}
	n, err := s.A.Send(frames)
	if n == 0 || n > transport.MaxBatch || err != nil {
		s.Fatalf("Send of %d frames = %d, %v; want 1..%d, nil", len(frames), n, err, transport.MaxBatch)
	}
	s.send(frames[n:]...)
	s.expect(s.B, frames...)
}

// bodies sends frames in 0 to MaxBody parts, some of them empty.
func (s *suite) bodies() {
	for _, parts := range []int{0, 1, 2, 3, 17, 100, transport.MaxBody - 1, transport.MaxBody} {
		payload := pattern(min(parts+parts/2, s.maxPayload()), parts) // parts of 1 and 2 bytes
		whole := s.frame(payload)
		split := transport.Frame{Head: whole.Head[:ethertype.HeaderSize]}
		for i := range parts {
			n := len(payload) * i / parts
			m := len(payload) * (i + 1) / parts
			split.Body = append(split.Body, payload[n:m])
			if i%5 == 4 {
				split.Body[i] = nil
				split.Body[i-1] = payload[len(payload)*(i-1)/parts : m]
			}
		}
		if parts == 0 {
			split = whole
		}
		plain := s.frame(pattern(9, 200+parts))
		s.send(split)
		s.expect(s.B, whole)
		s.send(plain, split, split, split, split, split, plain)
		s.expect(s.B, plain, whole, whole, whole, whole, whole, plain)
	}
}

// sizes sends every small payload, those around powers of two and the largest.
func (s *suite) sizes() {
	limit := s.maxPayload()
	sizes := map[int]bool{}
	for n := range 130 {
		sizes[min(n, limit)] = true
		sizes[max(limit-n%20, 0)] = true
	}
	for p := 256; p < limit; p *= 2 {
		for n := p - 2; n <= p+2; n++ {
			sizes[min(n, limit)] = true
		}
	}
	for n := range sizes {
		payload := pattern(n, n)
		whole := s.frame(payload)
		split := transport.Frame{Head: whole.Head[:ethertype.HeaderSize], Body: [][]byte{payload}}
		s.send(whole, split)
		s.expect(s.B, whole, whole)
	}
}

// tooLong sends a batch with a frame beyond the MTU in the middle.
func (s *suite) tooLong() {
	good, long := s.frame(pattern(s.maxPayload(), 1)), s.frame(pattern(s.maxPayload()+1, 2))
	for _, batch := range [][]transport.Frame{
		{long}, {long, good}, {good, long}, {good, good, long, good}, {good, good, good, good, good, long},
	} {
		want := 0
		for want < len(batch) && batch[want].Len() == good.Len() {
			want++
		}
		if n, err := s.A.Send(batch); n != want || !errors.Is(err, transport.ErrFrameSize) {
			s.Fatalf("Send = %d, %v; want %d, ErrFrameSize", n, err, want)
		}
		s.expect(s.B, batch[:want]...)
	}
	s.send(good)
	s.expect(s.B, good)
}

// tooManyParts sends a frame of more parts than allowed.
func (s *suite) tooManyParts() {
	bad := s.frame(nil)
	bad.Body = make([][]byte, transport.MaxBody+1)
	good := s.frame(nil)
	if n, err := s.A.Send([]transport.Frame{good, bad}); n != 1 || !errors.Is(err, transport.ErrFrameSize) {
		s.Fatalf("Send = %d, %v; want 1, ErrFrameSize", n, err)
	}
	s.expect(s.B, good)
}

// views checks that received frames do not change while more arrive, and that the sender can reuse
// its memory.
func (s *suite) views() {
	frames := make([]transport.Frame, 8)
	for i := range frames {
		frames[i] = s.frame(pattern(min(100, s.maxPayload()), i))
	}
	want := frames[0].AppendTo(nil)
	s.send(frames[0])
	views := make([][]byte, 4)
	for end := s.B.Now() + patience; ; {
		n, err := s.B.Recv(views)
		if err != nil || s.B.Now() >= end {
			s.Fatalf("Recv = %d, %v", n, err)
		}
		if n == 1 {
			break
		}
		if err := s.B.Wait(end); err != nil {
			s.Fatal(err)
		}
	}
	clear(frames[0].Head)
	s.send(frames[1:]...)
	if !bytes.HasPrefix(views[0], want) {
		s.Errorf("a view changed before the next Recv:\n%x\nwant\n%x", views[0], want)
	}
	s.expect(s.B, frames[1:]...)
}

// oneView receives a batch frame by frame.
func (s *suite) oneView() {
	frames := []transport.Frame{s.frame(pattern(1, 1)), s.frame(pattern(2, 2)), s.frame(pattern(3, 3))}
	s.send(frames...)
	if n, err := s.B.Recv(nil); n != 0 || err != nil {
		s.Errorf("Recv(nil) = %d, %v", n, err)
	}
	for _, f := range frames {
		s.expect(s.B, f)
	}
}

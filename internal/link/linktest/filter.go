package linktest

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// The tests in this file send frames that must not arrive, and then frames that must. The segment
// keeps the order, so no test has to wait in vain.

// ports sends to the edges of B's range and beyond.
func (s *suite) ports() {
	b := s.B.Info()
	r := b.Ports
	to := func(port uint16) transport.Frame {
		return transport.Frame{Head: NewFrame(s.A.Info(), b, port, []byte{byte(port), byte(port >> 8)})}
	}
	var stray []transport.Frame // C must receive these
	for _, port := range []uint16{1, r.Lo - 1, r.Hi + 1, math.MaxUint16} {
		if port == ethertype.PortAll || r.Contains(port) {
			continue
		}
		s.send(to(port))
		if s.C != nil && s.C.Info().Ports.Contains(port) {
			stray = append(stray, to(port))
		}
	}
	s.send(to(r.Lo), to(r.Hi))
	s.expect(s.B, to(r.Lo), to(r.Hi))
	if s.C == nil {
		return
	}
	c := s.C.Info().Ports
	s.send(to(c.Lo), to(r.Lo), to(c.Hi))
	s.expect(s.C, append(stray, to(c.Lo), to(c.Hi))...)
	s.expect(s.B, to(r.Lo))
}

// portAll sends to PortAll, at one station and at all.
func (s *suite) portAll() {
	last := s.frame([]byte("last"))
	for _, mac := range []ethertype.MAC{s.B.Info().MAC, ethertype.Broadcast} {
		to := s.B.Info()
		to.MAC = mac
		f := transport.Frame{Head: NewFrame(s.A.Info(), to, ethertype.PortAll, []byte("all"))}
		s.send(f, last)
		s.expect(s.B, f, last)
		if s.C != nil {
			s.expect(s.C, f)
		}
	}
	// A sender does not receive its own broadcasts.
	if n, err := s.A.Recv(make([][]byte, 4)); n != 0 || err != nil {
		s.Errorf("the sender received %d of its own frames (%v)", n, err)
	}
}

// foreign sends frames that are not for B: another EtherType, version or station.
func (s *suite) foreign() {
	other := s.frame([]byte("type"))
	other.Head[framing.OffsetType] ^= 0x01
	old := s.frame([]byte("version"))
	old.Head[framing.OffsetVersion]++
	station := s.frame([]byte("station"))
	station.Head[framing.OffsetDst+5] ^= 0x55
	good := s.frame([]byte("good"))
	s.send(other, good, old, good, station, good)
	s.expect(s.B, good, good, good)
}

// outerLayout sends frames that share only the outer layout with Header's: a link must not examine
// more.
func (s *suite) outerLayout() {
	a, b := s.A.Info(), s.B.Info()
	outer := framing.Outer{Dst: b.MAC, Src: a.MAC, Type: b.EtherType, DstPort: b.Ports.Lo, SrcPort: a.Ports.Lo}
	var frames []transport.Frame
	for i, fill := range []byte{0, 0xff, 0x55} {
		outer.Kind = fill
		head := make([]byte, ethertype.HeaderSize)
		outer.Put(head)
		for at := framing.OuterSize; at < len(head); at++ {
			head[at] = fill
		}
		frames = append(frames, transport.Frame{Head: head, Body: [][]byte{pattern(min(100, s.maxPayload()), i)}})
	}
	s.send(frames...)
	s.expect(s.B, frames...)
}

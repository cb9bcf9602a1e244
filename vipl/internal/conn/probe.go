package conn

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

// padding is what full-size probes are filled with.
var padding [ethertype.MaxSize]byte

// SendProbe sends a Probe or ProbeAck with size bytes of payload.
func (p *Path) SendProbe(kind ethertype.Kind, size int) {
	a := p.c.a
	slot := a.batch.slot(a)
	if slot == nil {
		return
	}
	h := p.c.header(kind)
	h.Flags |= ethertype.FlagWholeCRC
	h.Size, h.Length = uint16(size), uint32(p.Data)
	h.Put(slot)
	a.batch.add(slot[:ethertype.HeaderSize], append(a.batch.body(), padding[:size]))
}

// ProbeSize is how long a probe is.
type ProbeSize uint8

// The lengths of probes.
const (
	ProbeOther ProbeSize = iota
	ProbeShort           // without payload
	ProbeFull            // as long as frames may be
	ProbeLong            // as long as a long frame
)

// SizeOf returns how long a probe, or an answer to one, is.
func (p *Path) SizeOf(h *ethertype.Header) ProbeSize {
	switch {
	case h.Size == 0:
		return ProbeShort
	case int(h.Size) == p.Data:
		return ProbeFull
	case p.Long && int(h.Size) == p.c.a.Long.Size:
		return ProbeLong
	}
	return ProbeOther
}

// longTries is in how many tries of a handshake a probe asks whether the path carries
// long frames.
const longTries = 2

// BeginProbes forgets what the answers to probes have told.
func (p *Path) BeginProbes() { p.test = pathTest{} }

// Probe sends the probes of a handshake's try. The first is nearly always answered, and
// goes without a short one.
func (p *Path) Probe(try int) {
	if p.Long && try <= longTries {
		p.SendProbe(ethertype.KindProbe, p.c.a.Long.Size)
	}
	if try == 1 {
		p.SendProbe(ethertype.KindProbe, p.Data)
	} else {
		p.sendPair(&p.test)
	}
}

// Answered notes the answer to a probe.
func (p *Path) Answered(h *ethertype.Header) {
	switch size := p.SizeOf(h); size {
	case ProbeLong:
		p.leaveHole()
	default:
		p.test.answered(size == ProbeFull)
	}
}

// Narrow reports whether the path does not carry full-size frames; see pathTest.
func (p *Path) Narrow(odds float64) bool { return p.test.narrow(odds) }

// Lossy says how lossy the path is, if short probes were answered; else it returns "".
func (p *Path) Lossy() string {
	if p.test.short == 0 {
		return ""
	}
	return fmt.Sprintf("the path loses most frames: %d of %d short probes were answered, and none of full size", p.test.short, p.test.pairs)
}

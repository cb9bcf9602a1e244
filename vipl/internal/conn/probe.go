package conn

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// padding is what full-size probes are filled with.
var padding [ethertype.MaxSize]byte

// SendProbe sends a Probe or ProbeAck with size bytes of payload.
func (p *Path) SendProbe(kind ethertype.Kind, size int) {
	sh := p.c.shared
	slot := sh.slot()
	if slot == nil {
		return
	}
	h := p.c.header(kind)
	h.Flags |= ethertype.FlagWholeCRC
	h.Size, h.Length = uint16(size), uint32(p.Data)
	h.Put(slot)
	sh.batch.Add(slot[:ethertype.HeaderSize], append(sh.batch.Body(), padding[:size]))
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
	case p.Long && int(h.Size) == p.c.shared.Long.Size:
		return ProbeLong
	}
	return ProbeOther
}

// longTries is in how many tries of a handshake a probe asks whether the path carries
// long frames.
const longTries = 2

// BeginProbes forgets what the answers to probes have told.
func (p *Path) BeginProbes() { p.test = PathTest{} }

// Probe sends the probes of a handshake's try. The first is nearly always answered, and
// goes without a short one.
func (p *Path) Probe(try int) {
	if p.Long && try <= longTries {
		p.SendProbe(ethertype.KindProbe, p.c.shared.Long.Size)
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
		p.test.Answered(size == ProbeFull)
	}
}

// Narrow reports whether the path does not carry full-size frames; see PathTest.
func (p *Path) Narrow(odds float64) bool { return p.test.Narrow(odds) }

// Lossy says how lossy the path is, if short probes were answered; else it returns "".
func (p *Path) Lossy() string {
	if p.test.Short == 0 {
		return ""
	}
	return fmt.Sprintf("the path loses most frames: %d of %d short probes were answered, and none of full size", p.test.Short, p.test.Pairs)
}

// sendPair sends a pair of probes.
func (p *Path) sendPair(t *PathTest) {
	t.Pairs++
	p.SendProbe(ethertype.KindProbe, p.Data)
	p.SendProbe(ethertype.KindProbe, 0)
}

// probeAgain is called when what the connection has sent is not acknowledged although it has been
// sent several times. If the oldest of it is a long frame, it asks the peer whether the path
// still carries full-size frames, until one was answered, and ends the connection, and
// returns false, when it does not. A short frame that is missing says nothing of that, nor
// does one within this host, and probes would fill a ring that may be what has no room for it.
func (p *Path) probeAgain(tries int) bool {
	t := &p.test
	if tries == triesInvain+1 {
		*t = PathTest{}
	}
	local := p.c.Remote.MAC == p.c.shared.info.MAC
	if local || t.Passed || int(p.c.tx.sender.OldestSize()) <= min(passesAnywhere, p.Data/2) {
		return true
	}
	if !t.Narrow(NarrowCertain) {
		for range pairsPerTry {
			p.sendPair(t)
		}
		return true
	}
	p.c.SendDisconnect(code.ReasonMTU)
	p.c.EnterError(code.ErrInvalidMTU, p.MTUDetail(), code.ReasonMTU)
	p.c.shared.CountFailure()
	return false
}

// passesAnywhere is how many data bytes a frame has that a path carries whatever has become
// of its MTU: 576 bytes, which every host of the Internet takes (RFC 791, section 3.1), less
// the headers.
const passesAnywhere = 512

// MTUDetail names both sides of a path that does not carry full-size frames, and what was
// measured. What the path does carry is not: it would take many probes, which bobnet doctor sends.
func (p *Path) MTUDetail() string {
	return p.mtuDetail(fmt.Sprintf("%d of %d short probes were answered, and none of full size", p.test.Short, p.test.Pairs))
}

// PeerMTUDetail is MTUDetail for a measurement by the peer.
func (p *Path) PeerMTUDetail() string { return p.mtuDetail("as the peer has measured") }

func (p *Path) mtuDetail(measured string) string {
	sh, size := p.c.shared, p.Data+ethertype.BaseSize
	text := fmt.Sprintf(
		"frames of MTU %d do not pass although short ones do (%s): interface %s here (%v) has MTU %d, "+
			"the peer's (%v) has %d, something between them less; bobnet doctor -i %s measures what passes, and both must be lowered to that",
		size, measured, sh.info.Interface, sh.info.MAC, sh.mtu, p.c.Remote.MAC, p.remoteMTU, sh.info.Interface)
	const etherMTU = 1500 // without jumbo frames
	if size > etherMTU {
		text += fmt.Sprintf(", or to the %d that every Ethernet carries: ip link set dev %s mtu %[1]d", etherMTU, sh.info.Interface)
	}
	return text
}

// pairsPerTry is how many pairs of probes go with a frame that is sent again by timer.
// Time-outs are up to a second apart.
const pairsPerTry = 2

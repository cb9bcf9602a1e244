package conn

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// padding fills full-size probes.
var padding [ethertype.MaxSize]byte

// SendProbe sends a Probe or ProbeAck with size bytes of payload.
func (p *Path) SendProbe(kind ethertype.Kind, size int) { p.sendProbe(kind, 0, size) }

// sendProbe is SendProbe. With ethertype.FlagTakesLong it asks the peer to receive long frames, or
// answers that; the answer says whether the peer's long frames arrive in segments.
func (p *Path) sendProbe(kind ethertype.Kind, long ethertype.Flags, size int) {
	sh := p.c.shared
	slot := sh.slot()
	if slot == nil {
		return
	}
	h := p.c.header(kind)
	h.Flags = h.Flags&^ethertype.FlagTakesLong | ethertype.FlagWholeCRC | long
	h.Size, h.Length = uint16(size), uint32(p.Data)
	if long != 0 && kind == ethertype.KindProbeAck && p.need.cut {
		h.Msg = 1
	}
	h.Put(slot)
	sh.batch.Add(slot[:ethertype.HeaderSize], append(sh.batch.Body(), padding[:size]), nil)
}

// ProbeSize is the length of a probe.
type ProbeSize uint8

// The lengths of probes.
const (
	ProbeOther ProbeSize = iota
	ProbeShort           // without payload
	ProbeFull            // the maximum length of a frame
	ProbeLong            // as long as a long frame
	ProbeAsks            // without payload: it asks for long frames, or answers that
)

// SizeOf returns the length of a probe, or of an answer.
func (p *Path) SizeOf(h *ethertype.Header) ProbeSize {
	switch asks := h.Flags&ethertype.FlagTakesLong != 0; {
	case asks && (h.Size != 0 || !p.Long):
		return ProbeOther
	case asks:
		return ProbeAsks
	case h.Size == 0:
		return ProbeShort
	case int(h.Size) == p.Data:
		return ProbeFull
	case p.Long && int(h.Size) == p.c.shared.Long.Size:
		return ProbeLong
	}
	return ProbeOther
}

// BeginProbes discards the results of earlier probes.
func (p *Path) BeginProbes() { p.test = PathTest{} }

// Probe sends the probes of one try of a handshake. The first one is almost always answered, and is
// sent without a short one.
func (p *Path) Probe(try int) {
	if try == 1 {
		p.SendProbe(ethertype.KindProbe, p.Data)
	} else {
		p.sendPair(&p.test)
	}
}

// Answered records the answer to a probe.
func (p *Path) Answered(h *ethertype.Header) {
	switch size := p.SizeOf(h); size {
	case ProbeAsks:
		p.Cut = h.Msg != 0
		p.probeLong()
	case ProbeLong:
		p.HeardCut(true)
		p.leaveHole()
	default:
		p.test.Answered(size == ProbeFull)
	}
}

// Narrow reports whether the path does not carry full-size frames; see PathTest.
func (p *Path) Narrow(odds float64) bool { return p.test.Narrow(odds) }

// Lossy describes how many frames the path loses if short probes were answered; otherwise it
// returns "".
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

// probeAgain is called when the connection's frames stay unacknowledged after several
// transmissions. If the oldest is a full-size frame, it probes whether the path still carries such
// frames, until a probe is answered. If the path does not, it ends the connection and returns
// false. It does not probe for a short frame, which proves nothing, nor within a host, where probes
// would fill the ring that may be full.
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

// passesAnywhere is the number of data bytes in a frame that any path carries, whatever happened to
// its MTU: 576 bytes, which every Internet host accepts (RFC 791, section 3.1), minus the headers.
const passesAnywhere = 512

// MTUDetail names both ends of a path that does not carry full-size frames, and the measurement. It
// does not name the largest size that passes, which would need many probes: bobnet doctor sends
// these.
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

// pairsPerTry is the number of pairs of probes that accompany each retransmission by timer.
// Timeouts are up to a second apart.
const pairsPerTry = 2

package conn

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// probing is a pair of whose first end the path loses data frames, and which counts the
// full-size probes.
type probing struct {
	*pair
	probes   int
	answered int // of the probes
	again    int // times that data went again
}

// newProbing makes one. The path loses what lost says of a frame with data, or of a probe.
func newProbing(t *testing.T, lost func(p *probing, h *ethertype.Header) bool) *probing {
	p := &probing{pair: newPair(t, reliability.ReliableDelivery, 9000)}
	for _, e := range p.ends {
		e.c.SetTerms(Terms{Reliability: reliability.ReliableDelivery, PeerTimeout: time.Minute}, 64)
	}
	a, b := p.ends[0], p.ends[1]
	a.loses = func(h *ethertype.Header) bool {
		switch {
		case h.Kind == ethertype.KindProbe && h.Size > 0:
			p.probes++
		case h.Flags&ethertype.FlagRetry != 0:
			p.again++
		}
		return (h.Kind == ethertype.KindData || h.Kind == ethertype.KindProbe) && lost(p, h)
	}
	b.loses = func(h *ethertype.Header) bool {
		if h.Kind == ethertype.KindProbeAck && h.Size > 0 {
			p.answered++
		}
		return false
	}
	return p
}

// sends has the first end send a message of size bytes, until it has arrived or the
// connection has ended.
func (p *probing) sends(size int) {
	a, b := p.ends[0], p.ends[1]
	b.post(b.descriptor(inAt, slotSize), true)
	a.post(a.descriptor(outAt, size), false)
	p.run(func() bool { return a.c.SQ.Pending() == 0 })
}

// oftenLost is how often frames are lost in these tests: more often than it takes to probe.
const oftenLost = 5 * triesInvain

// TestShortFrameLost: a frame with one byte is lost again and again while all others pass.
// No full-size probe is sent for it, in which the path would not be at fault.
func TestShortFrameLost(t *testing.T) {
	p := newProbing(t, func(p *probing, h *ethertype.Header) bool {
		return h.Kind == ethertype.KindData && p.again < oftenLost
	})
	p.sends(1)
	if p.probes > 0 || p.again < oftenLost {
		t.Errorf("%d full-size probes were sent for a frame with one byte that went again %d times", p.probes, p.again)
	}
	if d := p.ends[0].c.SQ.Dequeue(); d.Status.Failed() || p.ends[1].c.RQ.Untaken() != 1 {
		t.Errorf("%v: %v", d.Status, p.ends[0].c.End.Err)
	}
}

// TestLongFrameLost: a long frame is lost again and again while probes pass: they are sent
// until one was answered, and no more then, and the connection goes on.
func TestLongFrameLost(t *testing.T) {
	p := newProbing(t, func(p *probing, h *ethertype.Header) bool {
		return h.Kind == ethertype.KindData && p.again < oftenLost
	})
	p.sends(8000)
	if p.probes == 0 || p.answered == 0 || p.probes > pairsPerTry {
		t.Errorf("%d full-size probes were sent, and %d answered", p.probes, p.answered)
	}
	if d := p.ends[0].c.SQ.Dequeue(); d.Status.Failed() || p.again < oftenLost {
		t.Errorf("sent again %d times: %v: %v", p.again, d.Status, p.ends[0].c.End.Err)
	}
}

// TestLocalFrameLost: the same within one host sends no probe.
func TestLocalFrameLost(t *testing.T) {
	p := newProbing(t, func(p *probing, h *ethertype.Header) bool {
		return h.Kind == ethertype.KindData && p.again < oftenLost
	})
	a, b := p.ends[0], p.ends[1]
	a.info.MAC = b.info.MAC
	p.sends(8000)
	if d := a.c.SQ.Dequeue(); p.probes > 0 || d.Status.Failed() {
		t.Errorf("%d full-size probes were sent: %v: %v", p.probes, d.Status, a.c.End.Err)
	}
}

// TestNarrowPath: where no frame beyond 1,500 bytes passes any more the connection ends and
// says so, whether what is missing is of full size or just too long.
func TestNarrowPath(t *testing.T) {
	for _, size := range []int{1600, 8000} {
		p := newProbing(t, func(_ *probing, h *ethertype.Header) bool { return h.Size > 1500 })
		p.sends(size)
		if a := p.ends[0]; !errors.Is(a.cause, code.ErrInvalidMTU) || a.c.State != code.StateError {
			t.Errorf("%d bytes: %v: %v", size, a.c.State, a.c.End.Err)
		}
	}
}

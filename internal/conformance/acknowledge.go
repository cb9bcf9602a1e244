package conformance

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// acknowledgeRules contains the rules about the meaning and the time of acknowledgements.
var acknowledgeRules = []rule{
	{"VipSendDone", "Delivery_EarlierFrameMissing_Complete", "10 M", delivery, func(c *Case) { c.behindAnswer() }},
	{"VipSendDone", "Reception_EarlierFrameMissing_NotComplete", "10 M", reception, func(c *Case) { c.behindAnswer() }},
	{"VipPostSend", "AcknowledgementAsked_ComesAtOnce", "doc", reliable, func(c *Case) {
		c.needVirtual()
		const lazy = 500 * time.Millisecond
		// A window of one frame makes each frame request an acknowledgement. There is no other
		// reason to acknowledge.
		c.tuned(&reliability.Config{Window: 1, AckDelay: int64(lazy), AckEvery: reliability.MaxWindow})
		a, b := c.pair()
		began := c.A.Now()
		r := c.post(b, 20_000)
		s := c.send(a, 20_000, 1)
		c.gotData(b, r, 20_000, 1)
		c.sent(a, s, vipl.StatusOpSend)
		if took := time.Duration(c.A.Now() - began); took >= lazy {
			c.Errorf("the transfer took %v: acknowledgements waited for their delay of %v", took, lazy)
		}
		if n := a.Snapshot().Retransmits; n > 0 {
			c.Error(n, "frames were sent again although none was lost")
		}
	}},
	{"VipErrorCallback", "Idle_PeerAnswersForItsLife", "doc", reliable, func(c *Case) {
		c.needVirtual()
		attr := c.mortal()
		a, b := c.pairOf(attr, nil) // b's timeout is longer: b would not probe before a declares it dead
		for end := c.A.Now() + 2*int64(attr.PeerTimeout); c.A.Now() < end; {
			c.drain()
		}
		c.works(a, b)
	}},
}

// needVirtual skips the rule if time is real: durations then depend on the load of the machine.
func (c *Case) needVirtual() {
	c.Helper()
	if c.World == nil {
		c.Skip("it measures the peer's delay, which needs virtual time")
	}
}

// behindAnswer makes a message arrive although the sender's earlier frame, the answer to a read, is
// lost. The message has reached the peer's interface, so its send completes with reliable delivery.
// The peer cannot receive it in order yet, so its send does not complete with reliable reception.
func (c *Case) behindAnswer() {
	c.Helper()
	lost := c.losing()
	a, b := c.pair()
	buf, h := c.mem(c.A, 100, remoteAccess())
	fill(buf, 1)
	c.A.QueryMem(h) // as source does
	r := c.post(b, 8)
	lost.Store(uint32(ethertype.KindReadData))
	d := c.read(b, 100, vipl.VirtualAddress(buf), h)
	c.await("the answer", func() bool { return a.Snapshot().RDMABytes == 100 })
	s := c.send(a, 8, 2)
	a.Flush()
	if c.level == delivery {
		c.sent(a, s, vipl.StatusOpSend)
	} else {
		c.pending(sends(a))
	}
	c.pending(receives(b))
	lost.Store(0)
	c.hasRead(b, d, 100, 1)
	c.gotData(b, r, 8, 2)
	if c.level == reception {
		c.sent(a, s, vipl.StatusOpSend)
	}
	c.works(a, b)
}

// losing gives the rule its own NICs, whose links lose frames of the stored kind in both
// directions; 0 means none.
func (c *Case) losing() *atomic.Uint32 {
	c.Helper()
	kind := new(atomic.Uint32)
	c.reopen(func(side int, l transport.Link) transport.Link { return &losingLink{Link: l, kind: kind} })
	return kind
}

// losingLink is a link that loses each Ethernet frame that contains a frame of a kind.
type losingLink struct {
	transport.Link
	kind  *atomic.Uint32
	frame []byte
}

func (l *losingLink) Send(frames []transport.Frame) (int, error) {
	lost := ethertype.Kind(l.kind.Load())
	for i := range frames {
		l.frame = frames[i].AppendTo(l.frame[:0])
		if holds(l.frame, lost) {
			continue
		}
		if n, err := l.Link.Send(frames[i : i+1]); n == 0 {
			return i, err
		}
	}
	return len(frames), nil
}

// holds reports whether an Ethernet frame contains a frame of the kind.
func holds(frame []byte, kind ethertype.Kind) bool {
	for frame != nil {
		var h ethertype.Header
		if _, err := h.Parse(frame); err != nil {
			return false
		}
		if h.Kind == kind {
			return true
		}
		frame = h.Next(frame)
	}
	return false
}

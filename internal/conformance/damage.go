package conformance

import (
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// damageLink, when armed, changes the last byte of the next frame of a kind, but not the frame's
// CRC.
type damageLink struct {
	transport.Link
	kind  ethertype.Kind
	armed *atomic.Bool
	h     ethertype.Header
}

func (l *damageLink) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		damaged, ok := l.damage(&frames[i])
		if !ok {
			damaged = frames[i : i+1]
		}
		if n, err := l.Link.Send(damaged); n == 0 {
			return i, err
		}
		if ok {
			l.armed.Store(false)
		}
	}
	return len(frames), nil
}

// damage returns a damaged copy of f, or false if f is not to be damaged.
func (l *damageLink) damage(f *transport.Frame) ([]transport.Frame, bool) {
	if !l.armed.Load() {
		return nil, false
	}
	b := f.AppendTo(nil)
	if _, err := l.h.Parse(b); err != nil || l.h.Kind != l.kind {
		return nil, false
	}
	b[len(b)-1] ^= 0x10
	return []transport.Frame{{Head: b}}, true
}

// damaging gives the rule its own NICs, whose links damage a frame when armed.
func (c *Case) damaging(kind ethertype.Kind) (armed [2]*atomic.Bool) {
	c.Helper()
	c.reopen(func(side int, l transport.Link) transport.Link {
		armed[side] = new(atomic.Bool)
		return &damageLink{Link: l, kind: kind, armed: armed[side]}
	})
	if c.self() {
		armed[1] = armed[0]
	}
	return armed
}

// wholeCRC connects VIs and damages a message in each direction. asks selects the VIs that request
// CRCs over whole frames. The receiver must detect the damage, and a reliable sender must
// retransmit the message.
func (c *Case) wholeCRC(asks [2]bool) {
	c.Helper()
	armed := c.damaging(ethertype.KindData)
	var attrs [2]*vipl.Attributes
	for side := range attrs {
		attrs[side] = c.attr()
		attrs[side].WholeCRC = asks[side]
	}
	a, b := c.pairOf(attrs[0], attrs[1])
	for side, way := range [][2]*vipl.VI{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		r := c.post(to, 100)
		before := c.dropped(to.NIC(), drops.CRC)
		armed[side].Store(true)
		s, seed := c.send(from, 77, 1), 1
		c.sent(from, s, vipl.StatusOpSend)
		if c.level == unreliable {
			c.drain()
			c.pending(receives(to))
			seed = 2
			c.send(from, 77, seed)
		}
		c.gotData(to, r, 77, seed)
		if n := c.dropped(to.NIC(), drops.CRC) - before; n != 1 {
			c.Errorf("%d frames dropped for their CRC, want 1", n)
		}
	}
	c.alive(a, b)
}

var damageRules = []rule{
	{"VipConnectAccept", "WholeCRCOfRequester_DamageFoundBothWays", "doc", allLevels, func(c *Case) { c.wholeCRC([2]bool{true, false}) }},
	{"VipConnectAccept", "WholeCRCOfAccepter_DamageFoundBothWays", "doc", allLevels, func(c *Case) { c.wholeCRC([2]bool{false, true}) }},
	{"VipErrorCallback", "RDMAW_DATA_PayloadDamaged", "7 V", unreliable, func(c *Case) {
		armed := c.damaging(ethertype.KindRDMAWrite)
		attr := c.attr()
		attr.WholeCRC = true
		a, b := c.pairOf(nil, attr)
		mine, theirs := c.watchBoth()
		buf, h := c.mem(c.B, 8, remoteAccess())
		armed[0].Store(true)
		c.write(a, 8, vipl.VirtualAddress(buf), h, false)
		c.alarmed(theirs, vipl.CodeRDMAWData, c.B, b, vipl.ResourceVI, vipl.StatusOpRemoteRDMAWrite)
		if !filled(buf, guardFill) {
			c.Error("a damaged write is in memory")
		}
		c.quiet(mine, vipl.CodeRDMAWData, a)
		if n := len(c.with(theirs, vipl.CodeRDMAWData, b)); n != 1 {
			c.Error("the error was reported", n, "times, want 1")
		}
		c.alive(a, b)
	}},
}

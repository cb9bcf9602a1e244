package hardware

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// longCable is what an end of a cable knows of long frames (transport.LongLink), which
// are longer than the MTU of its link: a packet that needs several frames of the MTU is
// one of these. Some links send and receive them, but what lies between two may lose
// them; so each end proves its way to the other one.
//
// Beside a greeting a long one goes, padded to the length of a long frame. Its Offset says
// how many octets of a packet a long frame to its sender may carry, if long greetings of
// the other end have come there lately; otherwise as many as any greeting says. So an end
// sends long frames when both ways carry them, and only then, and ceases when they do no
// more. It takes those that come in any case. Ends whose links have not the same MTU do
// without: the one does not know which frames are long ones to the other. The link receives
// long frames from the first long greeting on that it sends.
type longCable struct {
	link  transport.LongLink // nil: none
	part  int                // octets of a packet that a long frame carries; 0 for none
	same  bool               // both links have the same MTU
	heard int64              // when a long greeting has come, 0 for never
	tries int                // long greetings of this session
	parts [1][]byte
}

const (
	// longPart is the most octets of a packet that a long frame carries. A few of them fit
	// a card's memory.
	longPart = 32 << 10

	// An end whose long greetings are not answered sends that many, and then one beside
	// each of so many greetings.
	longTries  = 8
	longSeldom = 64
)

// longPadding is what follows the header of a long greeting.
var longPadding [longPart]byte

// newLongCable has link carry long frames, if it can, and if they are longer than others,
// which carry short octets of a packet.
func newLongCable(link transport.Link, short, maxPacket int) (l longCable) {
	part := min(longPart, maxPacket)
	long, ok := link.(transport.LongLink)
	if !ok || short >= part {
		return l
	}
	if l.link = long; long.StartLong() {
		l.part = part
	}
	return l
}

// reset begins a session.
func (l *longCable) reset() { l.same, l.heard, l.tries = false, 0, 0 }

// rest is how many octets of the last frame that has come are with the link.
func (l *longCable) rest() int {
	if l.link == nil {
		return 0
	}
	return l.link.Rest()
}

// take copies the part of a packet that a frame carries to dst, which is as long. What is
// not in part is with the link; it reports false if that has lost it.
func (l *longCable) take(dst, part []byte) bool {
	if len(part) == len(dst) {
		copy(dst, part)
		return true
	}
	l.parts[0] = dst
	ok := l.link.Fetch(ethertype.HeaderSize, l.parts[:])
	l.parts[0] = nil
	return ok
}

// hearsLong reports whether long greetings come.
func (c *cableEnd) hearsLong(now int64) bool {
	return c.long.heard != 0 && now-c.long.heard < int64(c.opts.Silence)
}

// speakLong queues a long greeting, if it is time for one.
func (c *cableEnd) speakLong(now int64) {
	l := &c.long
	hears := c.hearsLong(now)
	if !hears {
		c.out.long = 0
	}
	if !c.up || !l.same || l.part == 0 {
		return
	}
	if l.tries++; l.tries == 1 {
		l.link.ReceiveLong(true)
	}
	if !hears && l.tries > longTries && l.tries%longSeldom != 0 {
		return
	}
	takes := c.short
	if hears {
		takes = l.part
	}
	c.out.push(outFrame{
		h: framing.FabricHeader{
			Kind: framing.FabricHello, Seq: c.out.seq, Offset: uint32(takes), Length: uint32(c.opts.MaxPacket),
		},
		body: [1][]byte{longPadding[:l.part]},
	})
}

// longHello takes a long greeting, and returns the counter of why it is dropped. All that
// any greeting says has come by a short one.
func (c *cableEnd) longHello(now int64, h *framing.FabricHeader, from ethertype.Addr) (drop *uint64) {
	l := &c.long
	switch {
	case !c.known || from != c.peer:
		return &c.frames.Strangers
	case h.Tag != c.peerTag || uint32(h.Packet) != c.tag:
		return &c.frames.Stale
	case !l.same:
		return &c.frames.Malformed
	}
	news := !c.hearsLong(now)
	c.heard, l.heard, c.out.long = now, now, 0
	if h.Offset > uint32(c.short) {
		c.out.long = int(min(h.Offset, uint32(l.part)))
	}
	if news {
		c.greet(now)
	}
	return nil
}

// straight takes a packet that has come in one frame, is the next one and finds nothing
// before it, past the buffer of the input. It reports false for others.
func (c *cableEnd) straight(h *framing.FabricHeader, part []byte) bool {
	in := &c.in
	if h.Seq != in.next || in.base != in.next || uint32(h.Size) != h.Length || h.Size == 0 ||
		c.pass.state != idle || in.at(h.Seq).state != slotEmpty || int(h.Length) > c.opts.MaxPacket {
		return false
	}
	memory := c.taker.place(int(h.Length))
	if memory == nil {
		return false
	}
	in.heardOf(h.Seq + 1)
	if len(part) < len(memory) {
		if !c.long.take(memory, part) {
			return true // a gap is left
		}
		part = memory
	}
	in.next++
	in.base++
	in.gapSince = 0
	c.stats.PacketsIn++
	c.stats.OctetsIn += uint64(h.Length)
	c.taker.placed(part)
	return true
}

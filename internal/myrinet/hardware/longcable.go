package hardware

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// longCable is the state of long frames (transport.LongLink) at one end of a cable. A long frame is
// longer than the link's MTU, so a packet that would need several frames needs one. Links may
// support long frames while the path between them drops them, so each end tests its path to the
// other.
//
// With its greetings an end also sends long greetings, padded to the length of a long frame. Offset
// in a long greeting is the number of bytes of a packet that a long frame to its sender may carry,
// provided that the sender has recently received long greetings; otherwise it is the same as in an
// ordinary greeting. So an end sends long frames only while both directions carry them. It always
// accepts those that arrive. Ends whose links have different MTUs do not use long frames, because
// neither knows which frames are long for the other. The link starts to receive long frames when
// the end sends its first long greeting.
type longCable struct {
	link  transport.LongLink // nil if the link has no long frames
	part  int                // bytes of a packet in a long frame; 0 for none
	same  bool               // both links have the same MTU
	heard int64              // time of the last long greeting from the neighbour, 0 for never
	tries int                // long greetings sent in this session
	parts [1][]byte
}

const (
	// longPart is the greatest number of bytes of a packet in a long frame. A few of them fit a
	// card's memory.
	longPart = 32 << 10

	// While its long greetings are not answered, an end sends longTries of them, and then one with
	// every longSeldom-th greeting.
	longTries  = 8
	longSeldom = 64
)

// longPadding follows the header of a long greeting.
var longPadding [longPart]byte

// newLongCable enables long frames on the link, if it supports them and if they are longer than
// ordinary frames. short is the number of bytes of a packet in an ordinary frame.
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

// rest returns how many bytes of the last received frame are still in the link.
func (l *longCable) rest() int {
	if l.link == nil {
		return 0
	}
	return l.link.Rest()
}

// assemble copies the part of a packet in a frame to dst, which has the part's length. part holds the
// beginning; take fetches the rest from the link. It reports false if the link has lost the rest.
func (l *longCable) assemble(dst, part []byte) bool {
	if len(part) == len(dst) {
		copy(dst, part)
		return true
	}
	l.parts[0] = dst
	ok := l.link.Fetch(ethertype.HeaderSize, l.parts[:])
	l.parts[0] = nil
	return ok
}

// hearsLong reports whether long greetings arrive.
func (c *cableEnd) hearsLong(now int64) bool {
	return c.long.heard != 0 && now-c.long.heard < int64(c.opts.Silence)
}

// speakLong queues a long greeting if one is due.
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

// longHello handles a long greeting. If it drops the greeting, it returns the counter of the
// reason. The other fields of a greeting have arrived in an ordinary one.
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

// straight hands a packet to the taker without copying it to the input's buffer. The packet must be
// whole in one frame, be the next one, and find nothing before it. Otherwise straight reports
// false.
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
		if !c.long.assemble(memory, part) {
			return true // leaves a gap
		}
		part = memory
	}
	in.next++
	in.base++
	in.gapSince = 0
	c.stats.PacketsIn++
	c.stats.BytesIn += uint64(h.Length)
	c.taker.placed(part)
	return true
}

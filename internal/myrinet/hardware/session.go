package hardware

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/mdlayher/ethernet"
)

// cableEnd is one end of a live cable. It finds the other end, exchanges frames with it, and puts
// the frames of packets in order. Its taker decides where the packets go.
//
// # Finding the neighbour
//
// An end broadcasts greetings (FabricHello) until it has received one; from then on it greets only
// that neighbour. A greeting carries the incarnation of its sender in Tag, the neighbour's
// incarnation in Packet (0 if unknown), the longest part that a frame to the sender may carry in
// Offset, and the longest packet in Length. Seq is the number of the next frame of its sender, and
// Credit is the same as in other frames. So a greeting repairs the effects of lost frames.
//
// An end sends packets once the neighbour has confirmed its incarnation. In other frames Tag mixes
// both incarnations, which identifies frames of an earlier session. An end that ends a session
// itself, because the neighbour is silent, starts a new incarnation. An end that learns of a new
// incarnation of the neighbour keeps its own.
//
// An end shows each station a different number as its incarnation, a hash of a secret and the
// station's address, and another one in broadcasts. The number in a broadcast greeting is accepted
// only while there is no session. A neighbour that has a session proves a new incarnation by the
// number that was sent to it alone, so a station that does not receive the neighbour's frames
// cannot end the session. A neighbour that has restarted gets that number in the answer to its
// first greeting.
type cableEnd struct {
	link  transport.Link
	opts  *myrinet.LiveOptions
	taker taker
	self  ethertype.Addr
	typ   ethernet.EtherType
	views [transport.MaxBatch][]byte

	secret  [4]uint32 // of this incarnation
	tag     uint32    // as shown to the neighbour, or in broadcasts while there is none; never 0
	shout   uint32    // as shown in broadcasts
	rng     *tags
	known   bool // peer and peerTag are set
	up      bool // the neighbour knows our incarnation
	peer    ethertype.Addr
	peerTag uint32
	heard   int64 // time of the neighbour's last frame
	longest int   // longest packet that the neighbour accepts, bytes
	behind  int   // greetings in a row with a Seq that is less than what has arrived

	timeout  int64 // opts.Timeout plus up to a quarter, nanoseconds, so that the ends do not act in step
	patience int64 // times timeout that a head may wait for the taker

	helloAt, helloed int64 // time of the next greeting, and of the last one
	starved          int64 // since when a frame has waited for credit, 0 if none does

	short  int // bytes of a packet in an ordinary frame
	in     inlet
	out    outlet
	long   longCable
	pass   passage
	stats  myrinet.PortStats
	frames CableStats
}

// taker receives the packets of a cable's end: a card, or a port of a switch.
type taker interface {
	// head is called when the first frame of a packet is the next one, and again after changes. It
	// returns whether the packet proceeds, waits, or is dropped; it counts a dropped packet.
	head(p *passage, part []byte) verdict
	// body takes a frame of a proceeding packet, and reports false if the frame has to wait. It is
	// responsible for releasing the slot. last means that the packet ends with this frame.
	body(p *passage, s *slot, last bool) bool
	// end is called when a proceeding packet has ended. whole means that it is complete.
	end(p *passage, whole bool)
	// cancel is called when a waiting packet is given up.
	cancel(p *passage)
	// changed is called when the cable has started or stopped sending packets, or has credit again.
	changed()
	// lost is called when a session has ended, and queued packets are lost.
	lost()
	// place returns memory for a packet of n bytes that has arrived in one frame, with nothing
	// before it, so that it bypasses the input's buffer. nil means that it must use the buffer.
	place(n int) []byte
	// placed is called when such a packet is complete, either in the memory from place or in the
	// link's frame.
	placed(packet []byte)
}

type verdict uint8

const (
	waits verdict = iota
	goes
	drops
)

func (c *cableEnd) init(link transport.Link, opts *myrinet.LiveOptions, t taker, patience int64, rng *tags) {
	c.patience, c.opts, c.taker, c.rng = patience, opts, t, rng
	c.plug(link)
	c.renew()
	c.timeout = int64(opts.Timeout) + int64(rng.next())%(int64(opts.Timeout)/4+1)
}

// plug sets the link. Slots of the old buffer that are still queued are not affected.
func (c *cableEnd) plug(link transport.Link) {
	info := link.Info()
	c.link, c.typ = link, info.EtherType
	c.self = ethertype.Addr{MAC: info.MAC, Port: info.Ports.Lo}
	c.short = min(info.MTU+ethertype.EthernetSize-ethertype.HeaderSize, c.opts.MaxPacket)
	c.long = newLongCable(link, c.short, c.opts.MaxPacket)
	part := max(c.short, c.long.part)
	c.in, c.out.part, c.out.long = newInlet(part), c.short, 0
	c.pass.kept = make([]byte, 0, part)
}

// pairTag returns the tag of frames from one incarnation to another.
func pairTag(to, from uint32) uint32 { return to ^ bits.RotateLeft32(from, 16) }

// receive handles at most one batch of frames, and reports whether the batch was full.
func (c *cableEnd) receive(now int64) (more bool, err error) {
	n, err := c.link.Recv(c.views[:])
	for i, frame := range c.views[:n] {
		c.frames.FramesIn++
		rest := 0
		if i == n-1 {
			rest = c.long.rest()
		}
		if drop := c.frame(now, frame, rest); drop != nil {
			*drop++
		}
	}
	return n == len(c.views), err
}

// frame handles a frame, of which the last rest bytes are still in the link. If it drops the frame,
// it returns the counter of the reason.
func (c *cableEnd) frame(now int64, frame []byte, rest int) (drop *uint64) {
	var h framing.FabricHeader
	part, err := h.ParseBegin(frame, rest)
	from := ethertype.Addr{MAC: h.Src, Port: h.SrcPort}
	switch {
	case err != nil || h.Src.IsGroup():
		return &c.frames.Malformed
	case from == c.self:
		return &c.frames.Strangers
	case h.Kind == framing.FabricHello && rest > 0:
		return c.longHello(now, &h, from)
	case h.Kind == framing.FabricHello:
		return c.hello(now, &h, from)
	case !c.known || from != c.peer:
		return &c.frames.Strangers
	case h.Tag != pairTag(c.tag, c.peerTag):
		c.greet(now)
		return &c.frames.Stale
	}
	c.heard = now
	c.establish(now)
	c.grant(h.Credit)
	if h.Kind == framing.FabricCredit || c.straight(&h, part) {
		return nil
	}
	return c.in.put(&h, part, &c.long, &c.frames)
}

// hello handles a greeting. If it drops the greeting, it returns the counter of the reason.
func (c *cableEnd) hello(now int64, h *framing.FabricHeader, from ethertype.Addr) (drop *uint64) {
	to := c.tag
	if !c.known || from != c.peer {
		to = c.tagFor(from)
	}
	knows := uint32(h.Packet) == to
	found := knows || !c.up && uint32(h.Packet) == c.shout
	switch {
	case h.Tag == 0 || h.Length < framing.FabricLeast || h.Offset == 0:
		return &c.frames.Malformed
	case c.known && from == c.peer && h.Tag == c.peerTag:
		c.heard = now
		if !knows {
			c.greet(now)
			return nil
		}
		c.frames.Hellos++
		c.establish(now)
		c.grant(h.Credit)
		c.in.heardOf(h.Seq)
		c.in.tell = true
		if c.behind++; !h.Seq.Less(c.in.next) {
			c.behind = 0
		}
		if c.behind == maxBehind {
			c.leave(true)
			c.greet(now)
		}
		return nil
	case c.up && from != c.peer, c.known && from != c.peer && !found:
		return &c.frames.Strangers
	case c.up && !knows:
		c.greet(now) // the neighbour may have restarted: send it this end's incarnation
		return &c.frames.Stale
	}
	if c.known {
		c.leave(false)
	}
	c.frames.Hellos++
	c.known, c.peer, c.peerTag, c.tag, c.heard = true, from, h.Tag, to, now
	c.longest = int(min(h.Length, uint32(c.opts.MaxPacket)))
	c.out.part = min(c.short, int(h.Offset))
	c.long.same = int(h.Offset) == c.short
	c.greet(now)
	if knows {
		c.establish(now)
		c.grant(h.Credit)
	}
	return nil
}

// renew starts a new incarnation.
func (c *cableEnd) renew() {
	for i := range c.secret {
		c.secret[i] = c.rng.next()
	}
	c.shout = c.tagFor(ethertype.Addr{MAC: ethertype.Broadcast})
	c.tag = c.shout
}

// tagFor returns the number of this incarnation for a station.
func (c *cableEnd) tagFor(to ethertype.Addr) uint32 {
	b := make([]byte, 0, 24)
	for _, word := range c.secret {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	b = binary.BigEndian.AppendUint16(append(b, to.MAC[:]...), to.Port)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// establish records that both ends know each other.
func (c *cableEnd) establish(now int64) {
	if !c.up {
		c.up = true
		c.frames.Sessions++
		if c.long.part > 0 {
			c.greet(now)
		}
		c.taker.changed()
	}
}

func (c *cableEnd) grant(credit ethertype.Seq) {
	if c.out.grant(credit) {
		c.starved = 0
		c.out.sayBreak()
		c.taker.changed()
	}
}

// leave ends the session. Received parts of packets proceed, truncated; queued packets are lost.
// With forget, the neighbour has ended, and this end starts a new incarnation.
func (c *cableEnd) leave(forget bool) {
	c.up, c.starved, c.behind = false, 0, 0
	c.stop(&c.stats.Lost)
	c.frames.FramesLost += uint64(c.in.reset())
	c.out.reset()
	c.long.reset()
	c.taker.lost()
	if forget {
		c.known, c.peer, c.peerTag = false, ethertype.Addr{}, 0
		c.renew()
	}
}

// greet schedules a greeting soon, at most one per millisecond.
func (c *cableEnd) greet(now int64) { c.helloAt = min(c.helloAt, max(now, c.helloed+greetPause)) }

// maxBehind is the number of consecutive greetings whose Seq may be less than what has arrived. A
// greeting that was overtaken has such a Seq. If all do, another station has sent those frames, and
// the session starts anew.
const maxBehind = 3

// greetPause is the minimum interval between greetings, in nanoseconds.
const greetPause = int64(1e6)

// speak queues a greeting if one is due.
func (c *cableEnd) speak(now int64) {
	if now >= c.helloAt {
		c.out.push(outFrame{h: framing.FabricHeader{
			Kind: framing.FabricHello, Seq: c.out.seq, Offset: uint32(c.short), Length: uint32(c.opts.MaxPacket),
		}})
		c.speakLong(now)
		c.helloed, c.helloAt = now, now+c.pause()
	}
}

// credits queues a credit frame and the notice of a broken packet, if they are due.
func (c *cableEnd) credits() {
	c.out.sayBreak()
	behind := c.in.credit().Sub(c.in.told) >= len(c.in.slots)/2
	if c.up && (c.in.tell || behind) && c.out.push(outFrame{h: framing.FabricHeader{Kind: framing.FabricCredit}}) {
		c.in.tell, c.in.told = false, c.in.credit()
	}
}

// pause returns the interval to the next greeting, in nanoseconds.
func (c *cableEnd) pause() int64 {
	switch {
	case !c.up:
		return int64(c.opts.Silence) / searchInSilence
	case c.starved != 0:
		return starvedPause
	}
	return int64(c.opts.Silence) / hellosInSilence
}

// starvedPause is the interval between greetings while a frame waits for credit, in nanoseconds.
const starvedPause = int64(10e6)

// room reports whether a frame of a packet can be queued. If the neighbour has no room, greetings
// ask for credit, in case its last credit was lost.
func (c *cableEnd) room(now int64) bool {
	if c.out.credit() > 0 {
		return true
	}
	if c.out.limit != c.out.seq {
		if !c.out.full {
			_ = c.flush() // the next flush gets the same error
		}
		c.out.crowded = c.out.credit() == 0
		return !c.out.crowded
	}
	if c.starved == 0 && c.out.limit.LessEq(c.out.seq) {
		c.starved = now
		c.frames.Starved++
		c.helloAt = min(c.helloAt, max(now, c.helloed)+starvedPause)
	}
	return false
}

func (c *cableEnd) snapshot() LivePort {
	info := c.link.Info()
	p := LivePort{
		Interface: info.Interface, Driver: info.Driver, Up: c.up, MaxPacket: c.opts.MaxPacket, Part: max(c.out.part, c.out.long),
		Slots: len(c.in.slots), Buffered: c.in.buffered(), Credit: max(0, c.out.limit.Sub(c.out.seq)), BlockedAt: c.pass.since,
		Packets: c.stats, Frames: c.frames,
	}
	if c.known {
		p.Neighbor, p.MaxPacket = c.peer.String(), c.longest
	}
	return p
}

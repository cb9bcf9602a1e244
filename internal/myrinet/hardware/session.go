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

// cableEnd is one end of a live cable: it finds the other end, exchanges frames with it,
// and puts those of packets in order. What is done with the packets says its taker.
//
// # Finding the neighbour
//
// An end greets everybody (FabricHello) until it has heard another one, and then that one
// only. A greeting carries the incarnation of its sender in Tag, that of the neighbour as
// the sender knows it in Packet (0 for none), the longest part that a frame to the sender
// may carry in Offset, and the longest packet in Length. Seq is the number of the frame
// that its sender sends next, and Credit what all frames say of credit: they put right
// what lost frames have spoilt.
//
// An end sends packets once the neighbour has said its incarnation. Other frames carry in
// Tag both incarnations, mixed, which tells apart those of a session that is over.
// An end that ends a session itself, because the neighbour is silent, begins with a new
// incarnation; an end that learns the neighbour's new one keeps its own.
//
// An end shows each station another number as its incarnation, made of a secret and of the
// station's address, and a further one to everybody. The number in a greeting to
// everybody finds the neighbour, and counts only while there is no session. A neighbour
// that has a session proves a new incarnation by the number that was sent to it alone, so a
// station that does not receive the neighbour's frames cannot end the session. A
// neighbour that has restarted gets that number with the answer to its first greeting.
type cableEnd struct {
	link  transport.Link
	opts  *myrinet.LiveOptions
	taker taker
	self  ethertype.Addr
	typ   ethernet.EtherType
	views [transport.MaxBatch][]byte

	secret  [4]uint32 // of this incarnation
	tag     uint32    // what the neighbour knows of it, or everybody while there is none; never 0
	shout   uint32    // what everybody knows of it
	rng     *tags
	known   bool // peer and peerTag are set
	up      bool // the neighbour knows our incarnation, too
	peer    ethertype.Addr
	peerTag uint32
	heard   int64 // when the neighbour was heard last
	longest int   // packet that the neighbour takes, octets
	behind  int   // greetings in a row by which the neighbour has not sent what has come

	timeout  int64 // opts.Timeout and up to a quarter more, nanoseconds: no two ends' clocks agree
	patience int64 // how many times as long a head may wait for the taker

	helloAt, helloed int64 // when the next greeting is due; when the last one went
	starved          int64 // since when a frame has waited for credit, 0 for none does

	short  int // octets of a packet that a frame of the link's MTU carries
	in     inlet
	out    outlet
	long   longCable
	pass   passage
	stats  myrinet.PortStats
	frames CableStats
}

// taker is what a cable's end does with packets: a card, or a port of a switch.
type taker interface {
	// head is asked when the first frame of a packet is the next one, and again when
	// something has changed. It says whether the packet goes on, waits, or is dropped,
	// which it has counted then.
	head(p *passage, part []byte) verdict
	// body takes a frame of a packet that goes on, and reports false if it has to wait.
	// It sees to it that the slot comes free. last says that the packet ends with it.
	body(p *passage, s *slot, last bool) bool
	// end says that a packet which went on has ended, and whether it is whole.
	end(p *passage, whole bool)
	// cancel says that a packet waits no longer.
	cancel(p *passage)
	// changed says that the cable has begun or ceased to carry packets out, or that there
	// is credit again.
	changed()
	// lost says that a session has ended: what was to go out is gone.
	lost()
	// place returns memory for a packet of n octets that has come in one frame, with nothing
	// before it: it need not go through the input's buffer. Nil means that it has to.
	place(n int) []byte
	// placed says that such a packet is there, whole: either in the memory that place has
	// returned, or in a frame, which is the link's.
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

// plug sets the link. Slots of the buffer before that are still queued come free without it.
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

// pairTag is what frames carry from an incarnation to another one.
func pairTag(to, from uint32) uint32 { return to ^ bits.RotateLeft32(from, 16) }

// receive takes what has come, a batch at most, and reports whether it was a full one.
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

// frame takes a frame, the last rest octets of which are with the link, and returns the
// counter of why it is dropped.
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

// hello takes a greeting.
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
		c.greet(now) // it may have restarted: now it learns our incarnation
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

// renew draws a new incarnation.
func (c *cableEnd) renew() {
	for i := range c.secret {
		c.secret[i] = c.rng.next()
	}
	c.shout = c.tagFor(ethertype.Addr{MAC: ethertype.Broadcast})
	c.tag = c.shout
}

// tagFor returns the number that a station knows as this incarnation.
func (c *cableEnd) tagFor(to ethertype.Addr) uint32 {
	b := make([]byte, 0, 24)
	for _, word := range c.secret {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	b = binary.BigEndian.AppendUint16(append(b, to.MAC[:]...), to.Port)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// establish notes that both ends know each other.
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

// leave ends the session. What has come of packets goes on, truncated; what was to go out
// is lost. With forget, the neighbour is gone, and we are another incarnation.
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

// greet has a greeting go soon, but not more than one a millisecond, whoever asks for it.
func (c *cableEnd) greet(now int64) { c.helloAt = min(c.helloAt, max(now, c.helloed+greetPause)) }

// maxBehind is how many greetings in a row may say that the neighbour has not sent what has
// come. One that was overtaken does; if all do, somebody else has sent it, and the session
// begins anew.
const maxBehind = 3

// greetPause is the least time between two greetings, nanoseconds.
const greetPause = int64(1e6)

// speak queues the greeting and the credit that are due.
func (c *cableEnd) speak(now int64) {
	if now >= c.helloAt {
		c.out.push(outFrame{h: framing.FabricHeader{
			Kind: framing.FabricHello, Seq: c.out.seq, Offset: uint32(c.short), Length: uint32(c.opts.MaxPacket),
		}})
		c.speakLong(now)
		c.helloed, c.helloAt = now, now+c.pause()
	}
}

// credits queues what the neighbour is to know of credit, and of a packet that was broken.
func (c *cableEnd) credits() {
	c.out.sayBreak()
	behind := c.in.credit().Sub(c.in.told) >= len(c.in.slots)/2
	if c.up && (c.in.tell || behind) && c.out.push(outFrame{h: framing.FabricHeader{Kind: framing.FabricCredit}}) {
		c.in.tell, c.in.told = false, c.in.credit()
	}
}

// pause is the time from one greeting to the next, nanoseconds.
func (c *cableEnd) pause() int64 {
	switch {
	case !c.up:
		return int64(c.opts.Silence) / searchInSilence
	case c.starved != 0:
		return starvedPause
	}
	return int64(c.opts.Silence) / hellosInSilence
}

// starvedPause is the time between greetings while a frame waits for credit, nanoseconds.
const starvedPause = int64(10e6)

// room reports whether a frame of a packet can be queued. If the neighbour has no room,
// greetings ask for credit, should its last word have been lost.
func (c *cableEnd) room(now int64) bool {
	if c.out.credit() > 0 {
		return true
	}
	if c.out.limit != c.out.seq {
		if !c.out.full {
			_ = c.flush() // the next one meets the error, too
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

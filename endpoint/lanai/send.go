package lanai

import (
	"math/bits"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// frame is the control program's state of an endpoint frame. It is separate from the page, which
// the program on the host can write at will.
type frame struct {
	page   *hardware.Page
	end    *end // in the frame, or nil
	state  frameState
	since  int64 // when it was loaded
	drains int64 // when emptying began
	used   int64 // time of the latest message

	posted    uint16 // at the last doorbell
	done      uint16
	taken     uint16 // entries whose messages are in flight
	returning uint16 // entries whose messages must be returned
	why       [numSends]wire.Reason
	heads     [numSends]entry // of the entries in taken
	sendNext  [2]int          // entry to examine first, for each queue
	side      queue           // queue to examine first: not the one that has sent last
	passed    uint64          // turns of other frames since its last message, while it had messages to send

	filled      uint32
	receiveNext [2]int // entry to examine first, for each queue
}

type frameState uint8

const (
	frameEmpty    frameState = iota
	frameLoading             // an endpoint is being loaded
	frameLive                // the endpoint sends and receives
	frameDraining            // to be emptied when none of its messages is in flight
	frameSaving              // the endpoint is being saved
)

// bytes returns the page: the frame's, or the shared page of a program of another process.
func (f *frame) bytes() []byte {
	if e := f.end; e != nil && e.memory != nil {
		return e.image
	}
	return f.page.Bytes()
}

// pending returns the entries whose messages must be sent.
func (f *frame) pending() uint16 {
	if f.state != frameLive {
		return 0
	}
	return (f.posted ^ f.done) &^ (f.taken | f.returning)
}

// packetOf is the reference to an entry that the tables of channels store.
func packetOf(e *end, i int) uint32 { return uint32(e.slot)<<8 | uint32(i) }

// prepare fills a send buffer with the next data packet: a retransmission or a new one.
func (p *program) prepare() bool {
	b := p.buffer()
	if b.state != bufFree {
		return false
	}
	if p.job == none && p.scan(b) {
		return true
	}
	f, i, peer, ok := p.next()
	if !ok {
		return false
	}
	p.bind(b, f, i, peer)
	return true
}

// scan retransmits a packet, or returns its message, if a scan of the channels requests it.
func (p *program) scan(b *outBuffer) bool {
	if p.cfg.Unreliable || p.sends.Deadline() > p.now {
		return false
	}
	x, more := p.sends.Scan(p.now)
	if !more {
		return false
	}
	if x.End != channels.NotEnded {
		p.ended(&x)
		return true
	}
	p.c.Work(p.cfg.Costs.Resend)
	p.stats.Again++
	f, i := p.frameOf(x.Packet)
	p.build(b, f, i, x.Card, x.Header)
	return true
}

// frameOf returns the frame and the entry of a packet. The endpoint stays in its frame while the
// packet is in flight.
func (p *program) frameOf(packet uint32) (f *frame, i int) {
	if e := p.d.ends[packet>>8]; e != nil {
		f = e.frame
	}
	return f, int(packet & 0xff)
}

// next returns the next entry to send, by weighted round-robin among the frames (VNT, 4.1). A frame
// makes a number of attempts in its turn, even if it has nothing to send, while others wait. Frames
// without messages are skipped.
func (p *program) next() (f *frame, i, peer int, ok bool) {
	for {
		f = &p.frames[p.current]
		if p.left > 0 {
			if i, peer, ok = p.attempt(f); ok {
				p.left--
				p.tried = p.c.Now()
				return f, i, peer, true
			}
		}
		another := p.sendable()
		if another < 0 {
			return nil, 0, 0, false
		}
		if f.state == frameLive && p.loiter() {
			return nil, 0, 0, false
		}
		p.turn(another)
	}
}

// turn starts the turn of a frame.
func (p *program) turn(of int) {
	p.current, p.left, p.tried = of, p.cfg.Attempts, p.c.Now()
	p.stats.Turns++
	for i := range p.frames {
		f := &p.frames[i]
		if i == of || f.pending() == 0 {
			f.passed = 0
			continue
		}
		f.passed++
		p.stats.Passed = max(p.stats.Passed, f.passed)
	}
}

// loiterChunk is the number of futile attempts in one step.
const loiterChunk = 16

// loiter makes futile attempts for the frame whose turn it is, and reports whether the program must
// look again afterwards, because the host may have posted something meanwhile. If an attempt takes
// no time, nothing can be posted meanwhile, and all attempts are made at once. That is the case
// live, where the host's processor is also the card's. Attempts since the frame's last message
// count only while other frames wait.
func (p *program) loiter() (again bool) {
	cost := p.cfg.Costs.Loiter
	each := p.cycles(cost)
	if each > 0 {
		p.left -= int(min(int64(p.left), (p.c.Now()-p.tried)/each))
	}
	n := p.left
	if each > 0 {
		n = min(n, loiterChunk)
	}
	p.left -= n
	p.stats.Loitered += uint64(n)
	p.c.Work(n * cost)
	p.tried = p.c.Now()
	p.again = each > 0 && n > 0
	return p.again
}

// cycles returns the duration of n cycles of the card's processor, in nanoseconds.
func (p *program) cycles(n int) int64 {
	t := p.cfg.Card.Timing
	if t == nil || t.Clock <= 0 {
		return 0
	}
	return int64(n) * int64(time.Second) / t.Clock
}

// sendable returns the next frame after the current one with a message that can be sent, or -1.
func (p *program) sendable() int {
	for k := 1; k <= len(p.frames); k++ {
		at := (p.current + k) % len(p.frames)
		if f := &p.frames[at]; f.pending() != 0 {
			if _, _, ok := p.attempt(f); ok {
				return at
			}
		}
	}
	return -1
}

// attempt returns an entry of a frame that can be sent now, and its card. It returns messages that
// can never be sent to their sender.
func (p *program) attempt(f *frame) (i, peer int, ok bool) {
	set := f.pending()
	for set != 0 {
		i = f.firstOf(set)
		set &^= 1 << i
		h := &f.heads[i]
		h.parse(f.bytes()[sendAt(i):])
		if !p.sane(f, h) {
			p.stats.BadEntries++
			p.giveBack(f, i, wire.ReasonBadArgs)
			continue
		}
		peer, ok = p.peers.Add(h.station)
		if ok && h.station != p.self {
			_, ok = p.peers.Route(peer)
		}
		if p.d.host.Holds() && h.station != p.self {
			continue
		}
		if !ok {
			p.stats.Unroutable++
			p.giveBack(f, i, wire.ReasonUnreachable)
			continue
		}
		if !p.cfg.Unreliable && !p.sends.Free(peer) && !p.yield(peer) {
			continue
		}
		if h.flags&flagStaged != 0 && !f.end.staging.pinned {
			p.d.fault(f.end, &f.end.wantsPin)
			continue
		}
		if h.flags&flagStaged != 0 && p.job != none {
			continue // only short ones need no DMA
		}
		return i, peer, true
	}
	return 0, 0, false
}

// firstOf returns the entry of a set to send first. Requests and replies alternate, because the
// requester waits for a credit until its reply has arrived.
func (f *frame) firstOf(set uint16) int {
	q := f.side
	if set>>(q*sendEntries)&(1<<sendEntries-1) == 0 {
		q = 1 - q
	}
	mine, from := uint8(set>>(q*sendEntries)), f.sendNext[q]
	return int(q)*sendEntries + (bits.TrailingZeros8(bits.RotateLeft8(mine, -from))+from)%sendEntries
}

// yield frees a channel to a card from a packet whose endpoint is not resident there, or has no
// room. The message of that packet is sent again later.
func (p *program) yield(peer int) bool {
	x, ok := p.sends.Yield(p.now, peer)
	if !ok {
		return false
	}
	if f, i := p.frameOf(x.Packet); f != nil {
		f.taken &^= 1 << i
	}
	return true
}

// sane reports whether a host may post this entry. An entry names no memory: data outside the entry
// are in its own part of the endpoint's staging area.
func (p *program) sane(f *frame, h *entry) bool {
	switch {
	case h.flags&^flagStaged != 0 || h.op >= opEnd || h.length < connSize:
		return false
	case h.op == opControl && !f.end.privileged():
		p.stats.Privileged++
		return false
	case h.flags&flagStaged != 0:
		return h.length <= stageSize
	}
	return h.length <= inlineSize
}

// bind starts the first transmission of a message.
func (p *program) bind(b *outBuffer, f *frame, i, peer int) {
	p.c.Work(p.cfg.headed(p.cfg.Costs.Send))
	q := queue(i / sendEntries)
	f.side, f.sendNext[q] = 1-q, (i+1)%sendEntries
	f.used = p.now
	f.taken |= 1 << i
	var channel channels.Header
	if !p.cfg.Unreliable {
		p.c.Work(p.cfg.Costs.Bind)
		channel = p.sends.Send(p.now, peer, f.end.slot, packetOf(f.end, i))
	}
	b.frame, b.entry = f, i
	p.build(b, f, i, peer, channel)
	if b.state == bufReady {
		p.fetched(b)
	}
}

// build writes a packet to a send buffer: directly if it is short, otherwise by DMA.
func (p *program) build(b *outBuffer, f *frame, i, peer int, channel channels.Header) {
	e := &f.heads[i]
	h := header{kind: kindData, channel: channel, from: p.self, to: e.station, fromPort: f.end.port, fromEnd: f.end.id, toPort: e.port, toEnd: e.endpoint, op: e.op, length: e.length}
	if i >= sendEntries {
		h.queue = replies
	}
	at := outAt + h.put(b.mem[outAt:])
	b.n, b.peer = dataHeader+e.length, peer
	if e.flags&flagStaged == 0 {
		copy(b.mem[at:], f.bytes()[sendAt(i)+entryHead:][:e.length])
		b.state = bufReady
		p.fill++
		return
	}
	b.state, p.job = bufFilling, loading
	p.c.Fetch(b.mem[at:][:e.length], f.end.staging.sendPart(i))
}

// fetched handles a message that is entirely in a send buffer, for configurations that assume its
// arrival.
func (p *program) fetched(b *outBuffer) {
	if p.cfg.Unreliable {
		p.finished(b.frame, b.entry)
	}
}

// ended handles the outcome of a message.
func (p *program) ended(x *channels.Passage) {
	f, i := p.frameOf(x.Packet)
	if f == nil || f.taken&(1<<i) == 0 {
		return
	}
	switch x.End {
	case channels.EndedAcked:
		p.finished(f, i)
	case channels.EndedRefused: // the caller of OnAnswer knows why
	default:
		p.stats.Returned++
		p.giveBack(f, i, wire.ReasonUnreachable)
	}
}

// finished passes an entry of a send queue back to the host.
func (p *program) finished(f *frame, i int) {
	f.taken &^= 1 << i
	f.done ^= 1 << i
	shared.Store(f.bytes(), doneAt, uint32(f.done))
	if f.end.wanted() {
		p.tell(f.end)
	}
}

// giveBack returns a message to its sender through the reply queue, when there is room.
func (p *program) giveBack(f *frame, i int, why wire.Reason) {
	f.taken &^= 1 << i
	f.returning |= 1 << i
	f.why[i] = why
	p.payBack(f)
}

// payBack writes returned messages to the reply queue, as far as there is room.
func (p *program) payBack(f *frame) {
	for f.returning != 0 && (f.state == frameLive || f.state == frameDraining) {
		at := f.freeEntry(replies)
		if at < 0 && f.end.starve(true) {
			at = f.freeEntry(replies)
		}
		if at < 0 {
			return
		}
		f.end.starve(false)
		i := bits.TrailingZeros16(f.returning)
		f.returning &^= 1 << i
		back := entry{flags: flagReturned, op: uint8(f.why[i]), length: i}
		back.put(f.bytes()[receiveAt(at):])
		p.filledEntry(f, at)
		p.finished(f, i)
	}
}

package hardware

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// passage is the packet at the head of an input's buffer: its route through the switch and its
// progress. As in the hardware, an input has one at a time.
type passage struct {
	state  passageState
	number ethertype.Seq // packet number on this cable
	length int           // bytes, on this cable
	got    int           // bytes received in order
	crc    uint8         // CRC-8 of these bytes

	since   int64 // when it began to wait, 0 if it does not wait
	moved   int64 // time of its last frame
	counted bool  // counted as blocked
	cut     bool  // broken off while it waited: only kept is left
	kept    []byte
	gone    int // forwarded bytes of kept

	asked bool // switch: out and turn are set; card: it has no room
	out   int  // output of the switch
	turn  byte // first byte, which the switch has stripped
	sent  int  // forwarded bytes
}

type passageState uint8

const (
	idle    passageState = iota // no packet
	halted                      // the head waits for its output, or for the card
	passing                     // being forwarded
	thrown                      // its remaining frames are dropped
)

// consume takes frames in order, until one is missing or has to wait.
func (c *cableEnd) consume(now int64) {
	in := &c.in
	for in.next != in.high {
		s := in.at(in.next)
		if s.state != slotFull {
			if in.gapSince == 0 {
				in.gapSince = now
			}
			break
		}
		if !c.handleFrame(now, s) {
			return
		}
		in.gapSince = 0
		in.next++
		in.advance()
	}
	if c.pass.cut {
		c.retryCut(now)
	}
}

// handleFrame handles the next frame. It reports false if the frame has to wait.
func (c *cableEnd) handleFrame(now int64, s *slot) bool {
	p := &c.pass
	mine := p.state != idle && s.packet == p.number
	switch {
	case s.kind == framing.FabricBreak:
		if mine && !p.cut {
			c.finish(false)
		}
		s.state = slotDone
		return true
	case p.cut && !mine:
		return c.retryCut(now) && c.handleFrame(now, s)
	case s.offset == 0 && !(mine && p.got == 0):
		c.stop(&c.stats.Lost) // the previous packet was incomplete
		c.arrive(s)
	case !mine || int(s.length) != p.length || !p.cut && int(s.offset) != p.got:
		c.frames.Orphans++
		s.state = slotDone
		return true
	}
	if p.cut {
		s.state = slotDone // drops the rest of a broken packet
		return true
	}
	p.moved = now
	if p.state == halted && !c.begin(now, s.data) {
		return false
	}
	if p.state == passing && !c.forward(now, s) {
		return false
	}
	if s.state == slotFull {
		s.state = slotDone
	}
	if p.got += len(s.data); p.got == p.length {
		c.finish(true)
	}
	return true
}

// arrive starts the passage of a packet, whose first frame is s.
func (c *cableEnd) arrive(s *slot) {
	c.stats.PacketsIn++
	c.stats.BytesIn += uint64(s.length)
	c.pass = passage{state: halted, number: s.packet, length: int(s.length), kept: c.pass.kept[:0]}
	if c.pass.length > c.opts.MaxPacket {
		c.frames.TooLong++
		c.pass.state = thrown
	}
}

// begin asks the taker whether the packet can proceed. It reports false if the packet has to wait.
func (c *cableEnd) begin(now int64, part []byte) bool {
	p := &c.pass
	switch c.taker.head(p, part) {
	case waits:
		c.block(now)
		return false
	case drops:
		p.state = thrown
	case goes:
		p.state = passing
	}
	c.unblock(now)
	return true
}

// forward hands a frame of a proceeding packet to the taker. It reports false if the frame has to
// wait.
func (c *cableEnd) forward(now int64, s *slot) bool {
	p := &c.pass
	last := p.got+len(s.data) == p.length
	if !c.taker.body(p, s, last) {
		c.block(now)
		return false
	}
	c.unblock(now)
	return true
}

// block records that the packet waits.
func (c *cableEnd) block(now int64) {
	p := &c.pass
	if p.since == 0 {
		p.since = now
	}
	if !p.counted {
		p.counted = true
		c.stats.Blocked++
	}
}

// unblock records that the packet no longer waits.
func (c *cableEnd) unblock(now int64) {
	if p := &c.pass; p.since != 0 {
		c.stats.BlockedNanos += uint64(now - p.since)
		p.since = 0
	}
}

// finish ends the passage.
func (c *cableEnd) finish(whole bool) {
	p := &c.pass
	switch p.state {
	case passing:
		c.taker.end(p, whole)
	case halted:
		c.taker.cancel(p)
	}
	*p = passage{kept: p.kept[:0]}
}

// stop ends a passage early. A packet whose head has left ends truncated; others are dropped and
// counted in lost.
func (c *cableEnd) stop(lost *uint64) {
	switch c.pass.state {
	case passing:
		c.stats.Truncated++
	case halted:
		*lost++
	}
	c.finish(false)
}

// tick handles the timeouts that are due.
func (c *cableEnd) tick(now int64) {
	p := &c.pass
	if c.known && now-c.heard >= int64(c.opts.Silence) {
		c.leave(true)
		c.greet(now)
	}
	if c.in.gapSince != 0 && now-c.in.gapSince >= int64(c.opts.Gap) {
		c.frames.FramesLost += uint64(c.in.skip())
		if !p.cut {
			c.stop(&c.stats.Lost)
		}
		c.consume(now)
	}
	if at, ok := c.expires(); ok && now >= at {
		if p.since != 0 {
			c.breakUp(now)
		} else {
			c.stop(&c.stats.Lost)
		}
	}
}

// expires returns when the packet at the head has stood still for too long, because it waits or
// because no more of it arrives.
func (c *cableEnd) expires() (at int64, ok bool) {
	p := &c.pass
	switch {
	case p.since != 0 && p.state == halted:
		return p.since + c.patience*c.timeout, true
	case p.since != 0:
		return p.since + gonePatience*c.timeout, true
	case p.state != idle && c.in.next == c.in.high:
		return p.moved + outputPatience*c.timeout, true
	}
	return 0, false
}

// due returns when tick has work, or when flush should be retried.
func (c *cableEnd) due(now int64) int64 {
	at := c.helloAt
	if c.known {
		at = min(at, c.heard+int64(c.opts.Silence))
	}
	if c.in.gapSince != 0 {
		at = min(at, c.in.gapSince+int64(c.opts.Gap))
	}
	if t, ok := c.expires(); ok {
		at = min(at, t)
	}
	switch {
	case c.out.full && c.out.failed:
		at = min(at, now+failPause)
	case c.out.full:
		at = min(at, now+fullPause)
	}
	return at
}

// Delay before flush retries a link that had no room or an error, in nanoseconds.
const (
	fullPause = int64(50e3)
	failPause = int64(20e6)
)

// breakUp handles a packet that was blocked for too long. If its head still waits, the frames after
// the first are dropped, which frees the cable, and the first frame proceeds, truncated. If the
// rest of the packet is in the buffer, or it was broken up before, it is dropped. If its head has
// left and no switch ahead has broken it, it ends where it is.
func (c *cableEnd) breakUp(now int64) {
	p := &c.pass
	c.unblock(now)
	switch {
	case p.state == passing && p.sent > 0:
		c.stats.Truncated++
		c.taker.end(p, false)
		p.state = thrown
	case p.state == passing:
		c.stats.TimedOut++
		c.taker.end(p, false)
		p.state = thrown
	case p.cut:
		c.stats.TimedOut++
		c.finish(false)
	case c.in.holdsEnd():
		c.stats.TimedOut++
		c.taker.cancel(p)
		p.state = thrown
	default:
		c.stats.Truncated++
		p.cut, p.since = true, now
		s := c.in.at(c.in.next)
		p.kept = append(p.kept[:0], s.data...)
		s.state = slotDone
		c.in.next++
		c.in.advance()
	}
	c.consume(now)
}

// retryCut asks again for the kept part of a broken packet, and reports whether that part has left.
func (c *cableEnd) retryCut(now int64) bool {
	p := &c.pass
	if p.state == halted && !c.begin(now, p.kept) {
		return false
	}
	if p.state == passing {
		s := slot{state: slotFull, kind: framing.FabricPacket, sent: p.gone, data: p.kept}
		if !c.taker.body(p, &s, false) {
			p.gone = s.sent
			c.block(now)
			return false
		}
	}
	c.finish(false)
	return true
}

package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// The driver (driver.go) decides which endpoints are in frames: it names the frame to empty and the
// endpoint to load. The control program moves them, a page at a time, by the host's DMA engine. An
// endpoint leaves when each of its messages in flight has an ACK or the latest NACK (VNT, 4.4.4),
// so that no late answer finds a channel with another message. Messages with a NACK are sent again
// when the endpoint is back.

// moves starts the moves of endpoints that are possible now.
func (p *program) moves() (busy bool) {
	for i := range p.frames {
		f := &p.frames[i]
		if f.returning != 0 {
			p.payBack(f)
		}
		switch {
		case f.state == frameDraining && p.drained(f) && f.end.gone:
			p.depart(f)
			busy = true
		case p.job != none:
		case f.state == frameDraining && p.drained(f):
			p.startMove(f, frameSaving)
		case f.state == frameLoading:
			p.startMove(f, frameLoading)
		}
	}
	return busy
}

// startMove moves an endpoint from its frame, or to it.
func (p *program) startMove(f *frame, state frameState) {
	p.job, p.move, f.state = moving, f, state
	page, image := f.bytes()[:frameSize], f.end.image
	if state == frameSaving {
		p.unbind(f)
		f.end.state = endMoving
		p.c.DMA(image, page)
		return
	}
	p.c.Fetch(page, image)
}

// moved handles the end of a move.
func (p *program) moved() {
	f := p.move
	p.move = nil
	if f.state == frameSaving {
		p.depart(f)
		return
	}
	page := f.bytes()
	f.posted, f.done, f.filled = uint16(shared.Load(page, postedAt)), uint16(shared.Load(page, doneAt)), shared.Load(page, filledAt)
	f.taken, f.sendNext, f.receiveNext = 0, [2]int{}, [2]int{}
	f.returning, f.why = f.end.returning, f.end.why // moves returns them
	f.state, f.since, f.used = frameLive, p.now, p.now
	f.end.state = endResident
	p.sends.Resume(f.end.slot)
	if f.end.gone {
		p.drain(f)
	}
	p.stats.Loads++
	p.tell(f.end)
	p.c.Interrupt(causeMoved)
}

// depart removes an endpoint from its frame.
func (p *program) depart(f *frame) {
	e := f.end
	f.state, f.end, e.frame = frameEmpty, nil, nil
	if e.gone {
		for {
			if _, ok := p.sends.Unbind(e.slot); !ok {
				break
			}
		}
		p.sends.Resume(e.slot)
	} else {
		e.state = endAway
		e.returning, e.why = f.returning, f.why
		p.tell(e)
		if uint16(shared.Load(e.image, postedAt)) != f.done { // there was no time or no room for it
			p.d.fault(e, &e.wantsFrame)
		}
	}
	p.stats.Unloads++
	p.c.Interrupt(causeMoved)
}

// drained reports whether a frame may be emptied: no message of its endpoint is unresolved, in a
// channel or in a buffer.
func (p *program) drained(f *frame) bool {
	if p.in.f == f {
		return false
	}
	if !p.cfg.Unreliable && !p.sends.Drained(f.end.slot) {
		return false
	}
	return p.job != loading // whose source may be its staging area
}

// unbind removes messages with a NACK from their channels, as if they had never been sent.
func (p *program) unbind(f *frame) {
	for {
		var x channels.Passage
		x, ok := p.sends.Unbind(f.end.slot)
		if !ok {
			break
		}
		f.taken &^= 1 << (x.Packet & 0xff)
	}
	page := f.bytes()
	shared.Store(page, doneAt, uint32(f.done))
	shared.Store(page, filledAt, f.filled)
}

// drain starts to unload the endpoint in a frame.
func (p *program) drain(f *frame) {
	f.state, f.drains = frameDraining, p.d.now()
	p.sends.Drain(f.end.slot)
}

// abandon returns the unanswered messages of an endpoint that must leave.
func (p *program) abandon(f *frame) {
	p.unbind(f)
	for {
		x, ok := p.sends.Abandon(f.end.slot)
		if !ok {
			break
		}
		p.ended(&x)
	}
}

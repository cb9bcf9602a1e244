package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// Which endpoints are in frames is the driver's affair (driver.go): it says which frame an
// endpoint leaves and which comes, and the control program moves them, a page at a time, by
// the host's DMA engine. An endpoint leaves when each message that it has under way has an
// ACK or the latest NACK (VNT, 4.4.4), so that no late answer finds a channel that has
// another message. What has a NACK is sent anew when the endpoint is back.

// moves begins what can be done about endpoints that come and go.
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

// moved is the end of a move.
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
	f.returning, f.why = f.end.returning, f.end.why // moves pays them back
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

// depart ends an endpoint's stay.
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
		if uint16(shared.Load(e.image, postedAt)) != f.done { // it had no time, or no luck
			p.d.fault(e, &e.wantsFrame)
		}
	}
	p.stats.Unloads++
	p.c.Interrupt(causeMoved)
}

// drained reports whether a frame may be emptied: nothing of its endpoint is under way
// whose fate is not known, in a channel or in a buffer.
func (p *program) drained(f *frame) bool {
	if p.in.f == f {
		return false
	}
	if !p.cfg.Unreliable && !p.sends.Drained(f.end.slot) {
		return false
	}
	return p.job != loading // of which the source may be its staging area
}

// unbind takes what has a NACK from its channels: it is as if it had never been sent.
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

// drain begins to unload the endpoint in a frame.
func (p *program) drain(f *frame) {
	f.state, f.drains = frameDraining, p.d.now()
	p.sends.Drain(f.end.slot)
}

// abandon has what an endpoint that leaves has under way, and nobody answers, come back.
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

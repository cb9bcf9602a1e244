package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// arrival is an arrived message, and its destination.
type arrival struct {
	header
	received hardware.Received
	body     []byte
	peer     int
	f        *frame
	at       int // entry of the receive queues
	waits    bool
}

// receivePacket handles the next arrived packet. It returns false if there is none, or while the previous
// packet is being stored. It never waits for the card's own sends: routes are only free of deadlock
// if every card accepts what arrives.
func (p *program) receivePacket() bool {
	if p.in.waits {
		return p.deliver()
	}
	if p.in.received.Buffer != nil {
		return false
	}
	r, ok := p.c.Receive()
	if !ok {
		return false
	}
	p.in = arrival{received: r}
	if !p.judge() {
		p.drop()
	}
	return true
}

// drop returns the buffer of the packet to the receive engine.
func (p *program) drop() {
	p.c.Post(p.in.received.Buffer)
	p.in = arrival{}
}

// judge handles a packet, and reports whether its buffer is still in use.
func (p *program) judge() bool {
	a := &p.in
	if p.maps.Receive(p.now, &a.received) {
		return false
	}
	body, ok := a.parse(a.received.Payload)
	if !ok || a.received.Type != typeMessage {
		p.stats.Malformed++
		return false
	}
	p.c.Work(p.cfg.headed(p.cfg.Costs.Receive))
	a.body = body
	if a.kind == kindQuery || a.kind == kindHas {
		p.d.queried(&a.header, body)
		return false
	}
	if a.to != p.self {
		p.stats.Misdelivered++
		return false
	}
	if a.peer, ok = p.sender(a.from); !ok {
		p.stats.Strangers++
		return false
	}
	if a.kind == kindAnswer {
		p.answered()
		return false
	}
	return p.data()
}

// answered handles an ACK or NACK.
func (p *program) answered() {
	p.c.Work(p.cfg.Costs.Answered)
	x := p.sends.OnAnswer(p.in.peer, channels.Answer{Header: p.in.channel, Kind: p.in.answer, Offer: p.in.offer})
	if x.End == channels.EndedRefused {
		if f, i := p.frameOf(x.Packet); f != nil && f.taken&(1<<i) != 0 {
			q := requests
			if i >= sendEntries {
				q = replies
			}
			p.stats.Refused++
			p.giveBack(f, i, refusalReason(p.in.answer, q))
		}
		return
	}
	if x.End != channels.NotEnded {
		p.ended(&x)
	}
}

// data handles a message, and reports whether its buffer is still in use.
func (p *program) data() bool {
	if !p.cfg.Unreliable {
		if !p.answers.room(p.in.peer, p.in.channel.Channel) {
			p.stats.Unanswered++
			return false // its sender retransmits
		}
		p.c.Work(p.cfg.Costs.Arrive)
		switch v, answer := p.recvs.Arrive(p.in.peer, p.in.channel); v {
		case channels.ArrivalAnswer:
			p.answers.push(p.in.peer, answer)
			return false
		case channels.ArrivalDrop:
			return false
		}
	}
	return p.deliver()
}

// deliver writes a message to its endpoint, or refuses it, and reports whether its buffer is still
// in use. A message that needs the DMA engine waits for it, and later packets wait behind it.
// Without channels, a message also waits for a free entry.
func (p *program) deliver() bool {
	a := &p.in
	kind := p.place()
	if kind == 0 && a.length > inlineSize && p.job != none || p.cfg.Unreliable && kind >= channels.NackResident && kind <= channels.NackMemory {
		first := !a.waits
		a.waits = true
		return first
	}
	waited := a.waits
	a.waits = false
	if kind != 0 {
		p.refuse(kind)
		if waited {
			p.drop()
		}
		return waited
	}
	page := a.f.bytes()[receiveAt(a.at):]
	e := entry{op: a.op, length: a.length, station: a.from, port: a.fromPort, endpoint: a.fromEnd}
	a.f.used = p.now
	if a.length > inlineSize {
		e.flags = flagStaged
		e.put(page)
		p.job = storing
		p.c.DMA(a.f.end.staging.receivePart(a.at)[:a.length], a.body)
		return true
	}
	e.put(page)
	copy(page[entryHead:], a.body)
	p.accept()
	if waited {
		p.drop()
	}
	return waited
}

// place finds the entry for a message, or returns why there is none.
func (p *program) place() channels.AnswerKind {
	a := &p.in
	a.f = nil
	e := p.d.find(a.toPort, a.toEnd)
	if e == nil {
		return channels.NackNoEndpoint
	}
	f := e.frame
	if f == nil || f.state != frameLive {
		e.asked = p.now
		if e.state == endAway {
			p.d.fault(e, &e.wantsFrame)
		}
		return channels.NackResident
	}
	if !p.cfg.Unprotected {
		p.c.Work(p.cfg.Costs.Check)
		if (a.op == opControl) != e.privileged() {
			p.stats.Privileged++
			return channels.NackTag
		}
		if tag, tagged := tagOf(a.body); tagged && a.op == opMessage && !admits(e.tagIn(f.bytes()), tag) {
			p.stats.BadTags++
			return channels.NackTag
		}
	}
	if a.at = f.freeEntry(a.queue); a.at < 0 {
		return channels.NackOverrun
	}
	if a.length > inlineSize && !e.staging.pinned {
		p.d.fault(e, &e.wantsPin)
		return channels.NackMemory
	}
	a.f = f
	return 0
}

// stored handles the end of a transfer to a staging area.
func (p *program) stored() {
	p.accept()
	p.drop()
}

// accept makes a written message visible to the host, and acknowledges it.
func (p *program) accept() {
	a := &p.in
	p.stats.Delivered++
	p.filledEntry(a.f, a.at)
	if !p.cfg.Unreliable {
		p.answers.push(a.peer, p.recvs.Accept(a.peer, a.channel.Channel))
	}
}

// refuse answers a message that was not written.
func (p *program) refuse(kind channels.AnswerKind) {
	p.stats.Nacked[kind]++
	if !p.cfg.Unreliable {
		p.answers.push(p.in.peer, p.recvs.Refuse(p.in.peer, p.in.channel.Channel, kind))
	}
}

// freeEntry returns a free entry of a receive queue, or -1. The host's word taken counts only for
// filled entries.
func (f *frame) freeEntry(q queue) int {
	taken := shared.Load(f.bytes(), takenAt)
	for k := range receiveEntries {
		i := int(q)*receiveEntries + (f.receiveNext[q]+k)%receiveEntries
		if (f.filled^taken)>>i&1 == 0 {
			f.receiveNext[q] = (i + 1) % receiveEntries
			return i
		}
	}
	return -1
}

// filledEntry passes an entry of a receive queue to the host.
func (p *program) filledEntry(f *frame, at int) {
	f.filled ^= 1 << at
	shared.Store(f.bytes(), filledAt, f.filled)
	p.tell(f.end)
}

// tell notifies the driver that an endpoint has news.
func (p *program) tell(e *end) {
	if e.news {
		return
	}
	e.news = true
	p.d.newsOf.Push(e)
	switch {
	case e.privileged():
		p.c.Interrupt(causeControl)
	case p.cfg.Spin:
		p.d.news()
	default:
		p.c.Interrupt(causeNews)
	}
}

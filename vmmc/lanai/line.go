package lanai

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
)

// A line is what two cards send each other in order, with nothing lost: messages of the
// drivers, and chunks unless Config.Drop has these go without. Stop-and-wait channels
// (package channels) have packets sent again that are lost. Several channels lead from
// one card to another, and packets pass by all of them; each has its place in the order.
// The receiver keeps those in SRAM that come too soon, and when it has no room for them
// refuses them, so that they come again.
//
// Each direction has a number, which grows each time that its sender begins anew. A card
// that hears a new number of one that it has heard before, or that has taken packets of its
// own, knows that the other has lost its state, or has given the line up: it ends what hung
// on the line, and begins anew itself. Because it tells which number it has heard, the other one knows that this is
// the answer, and does not begin anew once more.
//
// A line hears only packets that carry the epoch of their channel, which the receiver has
// sent to the node's address: who only says to be the node does not know it, and what he
// says of a line's number is not believed. A packet whose place in the order is taken, or
// too far ahead, shows that somebody has spoken for the node: the line ends. Only that of a packet
// that was refused may come again, until its sender has heard of that.
type line struct {
	number uint64 // of what leaves
	heard  uint64 // the other side's, since number began; 0 for none
	floor  uint64 // the highest number that the other side has had
	taken  bool   // the other side has taken a packet since number began, so it has heard number

	waiting fifo.Queue[*buffer]  // not sent, in order
	order   uint32               // place of the next that is sent
	expect  uint32               // of the next that may come
	refused [channelCount]uint64 // by channel: 1 + the place of the last one that was refused, 0 for none
	under   int                  // packets under way
	held    int                  // buffers of packets for it
	last    int64                // when the other side was heard, or had nothing to answer
	users   int                  // what hangs on the line
	replies int                  // of the driver that wait for a buffer
	pinged  bool                 // a question for the other side waits for a buffer
	patient int64                // how long it may be silent, nanoseconds
}

// channelCount is how many channels lead from a card to another one.
const channelCount = 4

// begin has the line begin anew.
func (p *program) begin(l *line) {
	l.number++
	l.order, l.under, l.taken = 0, 0, false
	l.last = p.now
}

// judge takes in what a packet says of the lines. It reports whether the packet counts.
func (p *program) judge(node int, h *header) bool {
	l := &p.lines[node]
	switch {
	case h.line == l.heard && h.line != 0:
	case h.line <= l.floor || h.order != 0:
		if h.line == l.floor && h.echo != l.number && l.under+l.waiting.Len() == 0 {
			p.h.ping(node) // it does not know that its line has ended
		}
		return false // of a line that has ended, or not its first
	case (l.heard != 0 || l.taken) && h.echo != l.number: // it has forgotten what it had heard
		p.cut(node)
		l.hear(h.line)
	default:
		l.hear(h.line)
	}
	l.last = p.now
	return p.current(l, h)
}

// hear begins to hear a line of the other side.
func (l *line) hear(number uint64) {
	l.heard, l.floor, l.expect, l.refused = number, number, 0, [channelCount]uint64{}
}

// refuse notes that a packet has been refused: it comes again if its sender does not hear of that.
func (l *line) refuse(h *header) { l.refused[h.ch.Channel] = uint64(h.order) + 1 }

// refusedBefore reports whether a packet has been.
func (l *line) refusedBefore(h *header) bool { return l.refused[h.ch.Channel] == uint64(h.order)+1 }

// current reports whether a packet is of the two lines that there are.
func (p *program) current(l *line, h *header) bool {
	return h.line == l.heard && h.line != 0 && (h.echo == 0 || h.echo == l.number)
}

// cut ends all that hangs on a line, and begins it anew.
func (p *program) cut(node int) {
	l := &p.lines[node]
	p.count.LinesCut++
	for {
		x, more := p.send.AbandonCard(node)
		if !more {
			break
		}
		p.release(&p.bufs[x.Packet], endLost)
	}
	for l.waiting.Len() > 0 {
		b := l.waiting.Pop()
		if b.state == filling {
			b.dead = true
			p.end(b, endLost)
			continue
		}
		p.release(b, endLost)
	}
	l.heard = 0
	p.begin(l)
	p.h.lineCut(node)
}

// pump binds what waits on a line to channels.
func (p *program) pump(node int) (busy bool) {
	l := &p.lines[node]
	for l.waiting.Len() > 0 {
		b := *l.waiting.At(0)
		if b.state == filling {
			return busy
		}
		if !b.bound() {
			l.waiting.Pop()
			p.queue(b)
			busy = true
			continue
		}
		if node != 0 && !p.send.Free(node) {
			return busy
		}
		l.waiting.Pop()
		b.order = l.order
		l.order++
		if node != 0 {
			b.ch = p.send.Send(p.now, node, 0, uint32(b.index))
			l.under++
		}
		p.queue(b)
		busy = true
	}
	return busy
}

// answered takes in an answer.
func (p *program) answered(node int, h *header) {
	p.c.Work(p.h.costs.Answer)
	a := channels.Answer{Header: h.ch, Kind: h.reply, Offer: uint32(h.to[0])}
	if p.send.Awaits(node, a) {
		l := &p.lines[node]
		l.last = p.now
		l.taken = l.taken || h.reply != channels.NackInit && h.reply != channels.NackEpoch
	}
	p.ended(p.send.OnAnswer(node, a))
}

// ended sees to a packet that has ended.
func (p *program) ended(x channels.Passage) {
	switch x.End {
	case channels.NotEnded:
		return
	case channels.EndedAcked:
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endDone)
	case channels.EndedRefused: // those behind it go on
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endRefused)
	default: // the packets behind it cannot be told from it any more
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endLost)
		p.cut(x.Card)
	}
}

// again sends again what is due.
func (p *program) again() (busy bool) {
	for p.send.Deadline() <= p.now && p.queued.Len() < len(p.bufs) {
		x, more := p.send.Scan(p.now)
		if !more {
			return busy
		}
		busy = true
		if x.End != channels.NotEnded {
			p.ended(x)
			continue
		}
		b := &p.bufs[x.Packet]
		b.ch = x.Header
		p.queue(b)
	}
	return busy
}

// watch ends lines whose other side is silent, and asks those that have nothing to say. It
// returns when it is to be called again.
func (p *program) watch() (next int64) {
	next = forever
	for node := 1; node < p.nodes.Len(); node++ {
		l := &p.lines[node]
		switch silent := p.now - l.last; {
		case l.under+l.waiting.Len() > 0 && silent >= l.patient:
			p.cut(node)
		case l.under+l.waiting.Len() > 0:
			next = min(next, l.last+l.patient)
		case l.pinged: // it leaves when there is a buffer
		case l.users > 0 && silent >= l.patient/4:
			p.h.ping(node)
			next = p.now
		case l.users > 0:
			next = min(next, l.last+l.patient/4)
		}
	}
	return next
}

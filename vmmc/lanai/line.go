package lanai

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
)

// A line carries packets between two cards reliably and in order: messages of the drivers, and
// chunks unless Config.Drop is set. Stop-and-wait channels (package channels) retransmit lost
// packets. Several channels lead from one card to another, and packets use all of them; each packet
// has a position in the order. The receiver keeps early packets in SRAM, and refuses them when it
// has no room, so that they are retransmitted.
//
// Each direction has a number, which increases each time that its sender begins the line anew. If a
// card receives a new number after an earlier one, or after the other side has accepted packets,
// the other side has lost its state or has given the line up. The card then ends everything that
// depended on the line, and begins anew itself. It echoes the number that it has received, so the
// other side recognizes the response and does not begin anew once more.
//
// A line accepts only packets with the epoch of their channel, which the receiver has sent to the
// node's address. A station that merely claims to be the node does not know the epoch, and its line
// numbers are ignored. If a packet's position is already taken, or too far ahead, another
// station has sent packets under the node's address: the line ends. The exception is the position
// of a refused packet, which may be retransmitted until its sender receives the refusal.
type line struct {
	number uint64 // number of the outgoing direction
	heard  uint64 // the other side's number, since number began; 0 for none
	floor  uint64 // the highest number of the other side so far
	taken  bool   // the other side has accepted a packet since number began, so it has received number

	waiting fifo.Queue[*buffer]  // not sent yet, in order
	order   uint32               // position of the next packet to send
	expect  uint32               // position of the next packet to accept
	refused [channelCount]uint64 // by channel: 1 + the position of the last refused packet, 0 for none
	under   int                  // packets in flight
	held    int                  // buffers used by its packets
	last    int64                // when the last packet or acknowledgement from the other side arrived, or this side began to wait for one
	users   int                  // connections and others that depend on the line
	replies int                  // the driver's messages that wait for a buffer
	pinged  bool                 // a ping waits for a buffer
	patient int64                // maximum silence in nanoseconds
}

// channelCount is the number of channels from a card to another one.
const channelCount = 4

// begin begins the line anew.
func (p *program) begin(l *line) {
	l.number++
	l.order, l.under, l.taken = 0, 0, false
	l.last = p.now
}

// judge processes the line numbers of a packet. It reports whether the packet is valid.
func (p *program) judge(node int, h *header) bool {
	l := &p.lines[node]
	switch {
	case h.line == l.heard && h.line != 0:
	case h.line <= l.floor || h.order != 0:
		if h.line == l.floor && h.echo != l.number && l.under+l.waiting.Len() == 0 {
			p.h.ping(node) // a ping notifies the other side that its line has ended
		}
		return false // from a line that has ended, or not its first packet
	case (l.heard != 0 || l.taken) && h.echo != l.number: // the other side has lost its state
		p.cut(node)
		l.hear(h.line)
	default:
		l.hear(h.line)
	}
	l.last = p.now
	return p.current(l, h)
}

// hear starts to accept packets of the line with the given number.
func (l *line) hear(number uint64) {
	l.heard, l.floor, l.expect, l.refused = number, number, 0, [channelCount]uint64{}
}

// refuse records a refused packet. The sender retransmits it until it receives the refusal.
func (l *line) refuse(h *header) { l.refused[h.ch.Channel] = uint64(h.order) + 1 }

// refusedBefore reports whether a packet was refused.
func (l *line) refusedBefore(h *header) bool { return l.refused[h.ch.Channel] == uint64(h.order)+1 }

// current reports whether a packet belongs to the current two lines.
func (p *program) current(l *line, h *header) bool {
	return h.line == l.heard && h.line != 0 && (h.echo == 0 || h.echo == l.number)
}

// cut ends everything that depends on a line, and begins it anew.
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

// pump binds waiting packets of a line to channels.
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

// answered handles an answer.
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

// ended handles the end of a packet.
func (p *program) ended(x channels.Passage) {
	switch x.End {
	case channels.NotEnded:
		return
	case channels.EndedAcked:
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endDone)
	case channels.EndedRefused: // those behind it continue
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endRefused)
	default: // the order of the packets behind it is lost
		p.lines[x.Card].under--
		p.release(&p.bufs[x.Packet], endLost)
		p.cut(x.Card)
	}
}

// again retransmits what is due.
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

// watch ends lines whose other side is silent, and pings idle ones. It returns when to call it
// again.
func (p *program) watch() (next int64) {
	next = forever
	for node := 1; node < p.nodes.Len(); node++ {
		l := &p.lines[node]
		switch silent := p.now - l.last; {
		case l.under+l.waiting.Len() > 0 && silent >= l.patient:
			p.cut(node)
		case l.under+l.waiting.Len() > 0:
			next = min(next, l.last+l.patient)
		case l.pinged: // sent when there is a buffer
		case l.users > 0 && silent >= l.patient/4:
			p.h.ping(node)
			next = p.now
		case l.users > 0:
			next = min(next, l.last+l.patient/4)
		}
	}
	return next
}

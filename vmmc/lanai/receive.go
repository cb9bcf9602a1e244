package lanai

import (
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
)

// arrival is an incoming packet that is being stored in the host's memory: from the network, or
// from the card itself.
type arrival struct {
	header
	busy   bool
	node   int
	r      hardware.Received
	local  *buffer
	data   []byte // in SRAM, not yet stored
	piece  int    // index of the next address
	moved  int    // bytes in the current transfer
	refuse bool   // not, or not completely, writable
	owner  *seat
}

// Flags of a frame in the incoming page table.
const (
	frameWrite = 1 << iota
	frameNotify
)

// mostAnswers limits the waiting answers while packets that need one are accepted. Answers to
// packets that were accepted before are in addition.
const mostAnswers = 64

// receive takes the next incoming packet. It handles answers, and prepares others for storing. It
// never waits for the card's own sends: routes are free of deadlock only if every card always
// accepts packets.
func (p *program) receive() bool {
	if p.in.busy {
		return false
	}
	if p.turnHasCome() {
		return true
	}
	r, ok := p.c.Receive()
	if !ok {
		return false
	}
	p.tight = nil
	p.count.PacketsIn++
	if p.h.maps.Receive(p.now, &r) || p.admit(&r) == dropped {
		p.c.Post(r.Buffer)
	}
	return true
}

// reply queues an answer. It replaces a waiting answer for the same channel, which is outdated.
func (p *program) reply(node int, a channels.Answer) {
	if x := p.pending(node, a.Channel); x != nil {
		x.a = a
		return
	}
	p.answers.Push(answer{node, a})
}

// pending returns the waiting answer for a channel, or nil.
func (p *program) pending(node int, channel uint8) *answer {
	for i := range p.answers.Len() {
		if x := p.answers.At(i); x.node == node && x.a.Channel == channel {
			return x
		}
	}
	return nil
}

// fate is the result of receiving a packet.
type fate uint8

const (
	dropped fate = iota
	stored
	waits // it has arrived too early
)

// early is a packet that has arrived too early. It occupies its channel and its buffer.
type early struct {
	header
	node int
	r    hardware.Received
}

// mostEarly limits the early packets. They also use at most half of the buffers, because other
// packets, such as the mapper's, need buffers too.
const mostEarly = leastRecv * 2

// turnHasCome starts to store an early packet whose turn has come. It drops early packets of lines
// that have ended.
func (p *program) turnHasCome() bool {
	for i := range p.early {
		e := &p.early[i]
		l := &p.lines[e.node]
		stale := e.line != l.heard
		if !stale && (e.order != l.expect || e.kind != kindChunk && !p.h.hasRoom()) {
			continue
		}
		x := *e
		last := len(p.early) - 1
		p.early[i], p.early[last] = p.early[last], early{}
		p.early = p.early[:last]
		if stale {
			p.count.Stale++
			p.reply(x.node, p.recv.Refuse(x.node, x.ch.Channel, channels.NackNoEndpoint))
			p.c.Post(x.r.Buffer)
			return true
		}
		l.expect++
		p.in = arrival{header: x.header, busy: true, node: x.node, r: x.r}
		p.accept(x.r.Payload[headerSize:])
		return true
	}
	return false
}

// admit decides about an incoming packet.
func (p *program) admit(r *hardware.Received) fate {
	h := &p.in.header
	if r.Type != typePacket || !h.parse(r.Payload) {
		p.count.Strange++
		return dropped
	}
	node, ok := p.nodes.Find(h.from)
	if !ok || node == 0 {
		p.count.Strange++
		return dropped
	}
	if h.kind == kindAnswer {
		p.answered(node, h)
		return dropped
	}
	p.c.Work(p.h.costs.Receive)
	if h.flags&flagChannel != 0 {
		if f := p.passes(node, h, r); f != stored {
			return f
		}
	}
	if h.kind == kindControl && h.flags&flagChannel == 0 {
		p.count.Strange++
		return dropped
	}
	if h.kind == kindChunk && !p.current(&p.lines[node], h) {
		p.count.Stale++
		return dropped
	}
	if h.kind != kindChunk && !p.h.hasRoom() {
		p.count.TooSoon++ // it is a query, which is repeated
		return dropped
	}
	p.in.busy, p.in.node, p.in.r, p.in.local = true, node, *r, nil
	p.accept(r.Payload[headerSize:])
	return stored
}

// passes checks the channel and the line of a packet, and sends a NACK if the packet is not accepted. The
// line accepts only packets with the channel's epoch: their sender has received an acknowledgement from
// this card, so its address is genuine.
func (p *program) passes(node int, h *header, r *hardware.Received) fate {
	if p.answers.Len() >= mostAnswers && p.pending(node, h.ch.Channel) == nil {
		p.count.Unanswered++
		return dropped // its sender retransmits it
	}
	v, a := p.recv.Arrive(node, h.ch)
	l := &p.lines[node]
	if v == channels.ArrivalNew {
		if !p.judge(node, h) {
			p.count.Stale++
			p.recv.Refuse(node, h.ch.Channel, channels.NackResident) // send no NACK: the sender ends the line
			return dropped
		}
		if h.order == l.expect && (h.kind == kindChunk || p.h.hasRoom()) {
			l.expect++
			return stored
		}
		if l.refusedBefore(h) { // the NACK was lost: repeat it
			p.reply(node, p.recv.Refuse(node, h.ch.Channel, channels.NackNoEndpoint))
			return dropped
		}
		if h.order-l.expect >= channelCount { // another station has sent packets under the node's address: the missing packet would never arrive
			p.recv.Refuse(node, h.ch.Channel, channels.NackResident) // send no NACK: the new line that cut begins notifies the sender
			p.count.Stale++
			p.cut(node)
			return dropped
		}
		p.count.TooSoon++
		if len(p.early) < cap(p.early) {
			p.early = append(p.early, early{*h, node, *r})
			return waits
		}
		a = p.recv.Refuse(node, h.ch.Channel, channels.NackOverrun)
		v = channels.ArrivalAnswer
	}
	if v == channels.ArrivalAnswer {
		p.reply(node, a)
	}
	return dropped
}

// local handles one of the card's own packets as if it had arrived.
func (p *program) local(b *buffer) {
	p.in = arrival{header: b.header, busy: true, local: b}
	p.accept(b.mem[dataAt:][:b.size])
}

// accept starts to store a packet.
func (p *program) accept(data []byte) {
	in := &p.in
	in.data, in.piece, in.refuse, in.owner = data, 0, false, nil
	if in.kind == kindChunk {
		_, _, ok := in.scatter()
		in.refuse = !ok
	}
}

// store starts the DMA of the next piece of the packet.
func (p *program) store() bool {
	in := &p.in
	if !in.busy {
		return false
	}
	if in.kind != kindChunk {
		in.moved = len(in.data)
		p.job = storing
		return p.c.Transfer(in.moved, p.stored)
	}
	first, second, _ := in.scatter()
	in.moved = [2]int{first, second}[in.piece]
	if in.refuse || !p.writable(in.to[in.piece]) {
		in.refuse = true
		p.finishStore()
		return true
	}
	p.job = storing
	return p.c.Transfer(in.moved, p.stored)
}

// writable checks the incoming page table.
func (p *program) writable(addr uint64) bool {
	frame := addr >> pageShift
	return frame < uint64(len(p.flags)) && p.flags[frame]&frameWrite != 0
}

// onStored completes a transfer. It writes nothing to memory that has been revoked meanwhile.
func (p *program) onStored() {
	in := &p.in
	if in.kind != kindChunk {
		if in.node != 0 && in.kind == kindControl && !p.current(&p.lines[in.node], &in.header) {
			p.count.Stale++ // its line has ended meanwhile
			return
		}
		p.h.messageCame(in.node, in.kind == kindQuery, in.data[:in.moved])
		return
	}
	mem, owner := p.h.frames.at(in.to[in.piece], in.moved, importer{in.node, in.port})
	if owner == nil {
		in.refuse = true
		return
	}
	latch.StoreWords(mem, in.data[:in.moved])
	p.count.Chunks++
	p.count.BytesIn += uint64(in.moved)
	in.owner = owner
}

// finishStore continues with the second piece, or ends the packet.
func (p *program) finishStore() {
	in := &p.in
	in.data = in.data[min(in.moved, len(in.data)):]
	if in.kind == kindChunk && !in.refuse && in.piece == 0 && in.to[1] != 0 {
		in.piece = 1
		return
	}
	switch {
	case in.kind != kindChunk:
		p.c.Interrupt(causeMessage)
	case in.refuse:
		p.count.Refused++
		if in.node == 0 || p.current(&p.lines[in.node], &in.header) {
			p.h.refused(in.node, in.port, uint32(in.to[in.piece]>>pageShift))
		}
	case in.flags&flagNotify != 0:
		p.notify(in.to[0])
	}
	if in.owner != nil {
		in.owner.touched()
	}
	in.busy = false
	switch {
	case in.local != nil && in.refuse:
		p.release(in.local, endRefused)
		return
	case in.local != nil:
		p.release(in.local, endDone)
		return
	case in.flags&flagChannel != 0 && in.refuse:
		p.lines[in.node].refuse(&in.header)
		p.reply(in.node, p.recv.Refuse(in.node, in.ch.Channel, channels.NackNoEndpoint))
	case in.flags&flagChannel != 0:
		p.reply(in.node, p.recv.Accept(in.node, in.ch.Channel))
	}
	p.c.Post(in.r.Buffer)
	in.r = hardware.Received{}
}

// notify makes the driver notify an exporter, if the page is exported with notifications.
func (p *program) notify(addr uint64) {
	frame := addr >> pageShift
	if frame < uint64(len(p.flags)) && p.flags[frame]&frameNotify != 0 {
		p.h.notified(uint32(frame))
		p.c.Interrupt(causeMessage)
	}
}

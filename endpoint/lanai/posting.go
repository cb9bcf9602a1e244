package lanai

import (
	"encoding/binary"
	"math/bits"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// posting is what the host knows of the queues of an endpoint.
type posting struct {
	posted, done uint16 // as the words of the page
	shown        uint16 // posted, as it has been written
	taken        uint32 // the same of the receive queues
	shownTaken   uint32
	refs         [numSends]ref
	kept         [numReceives]*received // messages that lie in staging areas
	keeps        [2]int                 // of each receive queue
	waiting      [2]fifo.Queue[ref]     // for an entry of each send queue
}

// ref says whose message lies in an entry of a send queue, or waits for one.
type ref struct {
	what refKind
	ch   *channel
	i    int // send buffer, or slot
	n    int // octets
	say  *saying
}

type refKind uint8

const (
	refNone     refKind = iota
	refMessage          // of send buffer i
	refFragment         // of the bulk data for slot i
	refControl          // what a driver says
)

// free returns an entry of a send queue that is the host's, -1 for none.
func (p *posting) free(q queue) int {
	base := int(q) * sendEntries
	set := ^(p.posted ^ p.done) >> base & (1<<sendEntries - 1)
	if set == 0 {
		return -1
	}
	return base + bits.TrailingZeros16(set)
}

// put has a message wait for an entry, and writes it, and those before it, into entries as
// far as there are some. A message for an endpoint that is away has it loaded.
func (d *driver) put(e *end, q queue, r ref) {
	e.post.waiting[q].Push(r)
	d.flush(e)
}

// flush writes messages that wait into free entries.
func (d *driver) flush(e *end) {
	p := &e.post
	if p.waiting[requests].Len()+p.waiting[replies].Len() == 0 && p.posted == p.shown {
		return
	}
	if e.state != endResident {
		d.want(e)
		return
	}
	for q := range p.waiting {
		for p.waiting[q].Len() > 0 {
			i := p.free(queue(q))
			if i < 0 {
				e.want(true)
				break
			}
			if e == d.control && !p.bringForward() {
				break // until an entry is free, which the drivers' endpoint always hears of
			}
			d.writeEntry(e, i, &p.waiting[q])
		}
	}
	d.show(e)
}

// bringForward makes a saying the first of those that wait: the oldest whose station has fewer entries than
// are free, and whose user has, if the user shares the card. So stations that do not answer, and keep their entries
// for long, leave others to the rest. bringForward reports false if there is no such saying.
func (p *posting) bringForward() bool {
	waiting := &p.waiting[requests]
	free := sendEntries - bits.OnesCount8(uint8(p.posted^p.done))
	for i := range waiting.Len() {
		r := *waiting.At(i)
		if to, of := p.holds(r.say); to >= free || of >= free && r.say.user != ours {
			continue
		}
		for ; i > 0; i-- {
			*waiting.At(i) = *waiting.At(i - 1)
		}
		*waiting.At(0) = r
		return true
	}
	return false
}

// holds returns how many entries have sayings to the station of a saying, and how many those of its user.
func (p *posting) holds(s *saying) (to, of int) {
	for i := range p.refs[:sendEntries] {
		x := p.refs[i].say
		if x == nil {
			continue
		}
		if x.to.mac == s.to.mac {
			to++
		}
		if x.user == s.user {
			of++
		}
	}
	return to, of
}

// writeEntry writes the first message that waits into entry i.
func (d *driver) writeEntry(e *end, i int, from *fifo.Queue[ref]) {
	var scratch [entrySize]byte
	r := from.Pop()
	head := entry{op: opMessage}
	var to *peerName
	switch r.what {
	case refControl:
		head.op, to = opControl, &r.say.to
	case refFragment:
		head.op, to = opFragment, &r.ch.peer
	default:
		to = &r.ch.peer
	}
	head.station, head.port, head.endpoint = to.mac, to.port, to.end
	size := r.size()
	head.length = size
	if size <= inlineSize {
		r.fill(scratch[entryHead:])
	} else {
		head.flags = flagStaged
		e.staging.make()
		r.fill(e.staging.sendPart(i))
	}
	head.put(scratch[:])
	n := entryHead
	if head.flags == 0 {
		n += size
	}
	d.writeParts(e, sendAt(i), scratch[:n])
	e.post.refs[i] = r
	e.post.posted ^= 1 << i
	if r.what == refFragment {
		e.want(true)
		if r.ch.wrote(r.i) {
			from.Push(r)
		}
	}
}

// show tells the card what has been written.
func (d *driver) show(e *end) {
	p := &e.post
	if p.shown == p.posted {
		return
	}
	d.clock.later(e.shows)
}

// showPosted does so, when the host has got so far.
func (d *driver) showPosted(e *end) {
	p := &e.post
	if e.state != endResident || p.shown == p.posted {
		return // it is shown when the endpoint is back
	}
	p.shown = p.posted
	e.writeWord(postedAt, uint32(p.posted))
	d.ring(e)
}

// asked reports whether a half waits for the end of what lies in an entry.
func (p *posting) asked() bool {
	for i := range p.refs {
		if r := &p.refs[i]; r.ch != nil && (r.ch.asked || r.what == refFragment) {
			return true
		}
	}
	return false
}

// size returns the octets of a message in its entry or staging area.
func (r *ref) size() int {
	switch r.what {
	case refControl:
		return connSize + len(r.say.body)
	case refFragment:
		return fragmentHeader + r.ch.writes[r.i].chunk()
	}
	return connSize + r.n
}

// fill writes the message.
func (r *ref) fill(b []byte) {
	switch r.what {
	case refControl:
		binary.LittleEndian.PutUint32(b, uint32(r.say.what))
		copy(b[connSize:], r.say.body)
	case refFragment:
		binary.LittleEndian.PutUint32(b, r.ch.peerConn)
		r.ch.writes[r.i].fill(b, r.i)
	default:
		binary.LittleEndian.PutUint32(b, r.ch.peerConn)
		copy(b[connSize:], r.ch.sends[r.i].mem[:r.n])
	}
}

// takeDone notes which messages the card has done with, and calls each.
func (d *driver) takeDone(e *end, done uint16, each func(r *ref, back wire.Reason)) {
	p := &e.post
	for set := done ^ p.done; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		d.scratch.ref = p.refs[i]
		p.refs[i] = ref{}
		if d.scratch.ref.what != refNone {
			each(&d.scratch.ref, 0)
		}
	}
	p.done = done
}

// read calls each for what has come to an endpoint. What it returns keeps the entry, until
// release.
func (d *driver) read(e *end, each func(i int, h *entry, body []byte) (keeps bool), back func(r *ref, why wire.Reason)) {
	p := &e.post
	filled, done := e.words()
	for set := filled ^ p.taken; set != 0; set &= set - 1 {
		i := bits.TrailingZeros32(set)
		if p.kept[i] != nil {
			continue
		}
		var head [entryHead]byte
		h, buf := &d.scratch.head, d.scratch.body[:]
		d.readParts(e, receiveAt(i), head[:], 0)
		h.parse(head[:])
		switch {
		case h.flags&flagReturned != 0:
			if h.length < numSends && p.refs[h.length].what != refNone {
				d.scratch.ref = p.refs[h.length]
				p.refs[h.length] = ref{}
				back(&d.scratch.ref, wire.Reason(h.op))
			}
		case h.flags&flagStaged != 0:
			if h.length <= stageSize && h.length >= connSize && e.staging.receive != nil && each(i, h, e.staging.receivePart(i)[:h.length]) {
				continue
			}
		case h.length >= connSize && h.length <= inlineSize:
			d.readParts(e, receiveAt(i), buf[:h.length], entryHead)
			each(i, h, buf[:h.length])
		}
		p.taken ^= 1 << i
	}
	d.tookFrom(e)
	d.takeDone(e, done, back)
}

// tookFrom tells the card which entries of the receive queues are free.
func (d *driver) tookFrom(e *end) {
	p := &e.post
	if p.taken == p.shownTaken || !e.reachable() {
		return // when the endpoint has been moved
	}
	p.shownTaken = p.taken
	e.writeWord(takenAt, p.taken)
	if e.state == endResident && (e.memory == nil || shared.Load(e.image, starvedAt) != 0) {
		d.ring(e)
	}
}

// release frees an entry of the receive queues that each has kept.
func (d *driver) release(e *end, i int) {
	e.post.kept[i] = nil
	e.post.keeps[i/receiveEntries]--
	e.post.taken ^= 1 << i
	d.tookFrom(e)
}

// peerName is where messages go.
type peerName struct {
	mac  ethertype.MAC
	port uint16
	end  uint32
}

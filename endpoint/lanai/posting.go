package lanai

import (
	"encoding/binary"
	"math/bits"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// posting is the host's state of an endpoint's queues.
type posting struct {
	posted, done uint16 // the words of the page
	shown        uint16 // posted, as last written to the page
	taken        uint32 // the same for the receive queues
	shownTaken   uint32
	refs         [numSends]ref
	kept         [numReceives]*received // messages in staging areas
	keeps        [2]int                 // their number, for each receive queue
	waiting      [2]fifo.Queue[ref]     // messages that wait for an entry, for each send queue
}

// ref identifies a message that is in an entry of a send queue, or waits for one.
type ref struct {
	what refKind
	ch   *channel
	i    int // send buffer, or slot
	n    int // bytes
	say  *saying
}

type refKind uint8

const (
	refNone     refKind = iota
	refMessage          // in send buffer i
	refFragment         // of the bulk data for slot i
	refControl          // a control message of the driver
)

// free returns a free entry of a send queue, or -1.
func (p *posting) free(q queue) int {
	base := int(q) * sendEntries
	set := ^(p.posted ^ p.done) >> base & (1<<sendEntries - 1)
	if set == 0 {
		return -1
	}
	return base + bits.TrailingZeros16(set)
}

// put queues a message, and writes waiting messages to entries as far as there are free ones. If
// the endpoint is not in a frame, put requests one.
func (d *driver) put(e *end, q queue, r ref) {
	e.post.waiting[q].Push(r)
	d.flush(e)
}

// flush writes waiting messages to free entries.
func (d *driver) flush(e *end) {
	p := &e.post
	control := e == d.control
	if p.waiting[requests].Len()+p.waiting[replies].Len() == 0 && (!control || d.sayings.n == 0) && p.posted == p.shown {
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
			if r := p.waiting[q].Pop(); d.writeEntry(e, i, r) {
				p.waiting[q].Push(r)
			}
		}
	}
	for control && d.sayings.n > 0 {
		i := p.free(requests)
		if i < 0 {
			break // until an entry is free, which the drivers' endpoint always detects
		}
		s := d.sayings.pop(p)
		if s == nil {
			break
		}
		d.writeEntry(e, i, ref{what: refControl, say: s})
	}
	d.show(e)
}

// writeEntry writes a message to entry i. It reports whether bytes of the message are left.
func (d *driver) writeEntry(e *end, i int, r ref) (more bool) {
	var scratch [entrySize]byte
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
		return r.ch.wrote(r.i)
	}
	return false
}

// show makes the written entries visible to the card.
func (d *driver) show(e *end) {
	p := &e.post
	if p.shown == p.posted {
		return
	}
	d.clock.later(e.shows)
}

// showPosted makes the written entries visible at the host's current time.
func (d *driver) showPosted(e *end) {
	p := &e.post
	if e.state != endResident || p.shown == p.posted {
		return // shown when the endpoint is back
	}
	p.shown = p.posted
	e.writeWord(postedAt, uint32(p.posted))
	d.ring(e)
}

// asked reports whether a half waits for a message in an entry.
func (p *posting) asked() bool {
	for i := range p.refs {
		if r := &p.refs[i]; r.ch != nil && (r.ch.asked || r.what == refFragment) {
			return true
		}
	}
	return false
}

// size returns the bytes of a message in its entry or staging area.
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

// takeDone records which messages the card has finished, and calls each for them.
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

// read calls each for the messages that have arrived at an endpoint. If each returns true, the
// message keeps its entry until release.
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

// tookFrom reports the free entries of the receive queues to the card.
func (d *driver) tookFrom(e *end) {
	p := &e.post
	if p.taken == p.shownTaken || !e.reachable() {
		return // again after the endpoint has moved
	}
	p.shownTaken = p.taken
	e.writeWord(takenAt, p.taken)
	if e.state == endResident && (e.memory == nil || shared.Load(e.image, starvedAt) != 0) {
		d.ring(e)
	}
}

// release frees an entry of the receive queues that was kept.
func (d *driver) release(e *end, i int) {
	e.post.kept[i] = nil
	e.post.keeps[i/receiveEntries]--
	e.post.taken ^= 1 << i
	d.tookFrom(e)
}

// peerName is the destination of messages.
type peerName struct {
	mac  ethertype.MAC
	port uint16
	end  uint32
}

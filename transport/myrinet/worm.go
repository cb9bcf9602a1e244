package myrinet

import (
	"fmt"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// worm is a packet in flight in virtual time. Each event moves its head to the next port. The tail
// follows at a distance that depends on the length of the packet and on how full the buffers
// between them are. Each link that the tail leaves is an event, too.
//
// The links that the worm holds are its path. Let d(i) be the sum of the delays of the links before
// link i. Let late(i) be the time at which the head entered the buffer at the end of link i, minus
// d(i+1): the sum of all waits up to there. Byte k passes the beginning of link i no earlier than
// the head, and byte k - n*slack no earlier than the head has entered the buffer n links farther
// on. So the tail of a packet of z bytes leaves link i at
//
//	d(i) + max over m >= i of late(m) + max(z - (m-i)*slack, 0) / bandwidth
//
// This time is known as soon as the buffers from link i on hold the whole packet, or nothing can
// block its head any more. A buffer holds bytes of one packet at a time: the head of the next
// packet stands on the link until the tail of the first has left the buffer.
type worm struct {
	f     *Fabric
	data  []byte // the packet as it was sent, without the bytes that were cut off
	head  int    // bytes of the route that are used up
	path  []hop  // links whose tail has not been scheduled begin at tail
	tail  int
	base  int64 // d of the end of the path
	held  int   // links that are held
	at    *Port // input that the head has entered, stands before or approaches
	state wormState
	cut   bool
	lost  bool // dropped, and counted
	dirty bool // a bit was changed

	since   int64 // when it began to wait
	armed   int64 // when its timer event comes, 0 for none
	arrived func()
	expired func()
}

// hop is a link of a worm's path.
type hop struct {
	port *Port // port where the link begins
	base int64 // d
	late int64
	size int // bytes of the packet on this link
}

type wormState uint8

const (
	flying   wormState = iota // on the last link of its path
	standing                  // before a buffer that another packet has
	waiting                   // in the buffer, for an output or a card
	leaving                   // nothing blocks its head any more: it enters its card, or vanishes
	dying                     // lost while it was flying
	gone                      // delivered or dropped; links may still be held
)

// Send sends a packet: its route, type, payload and CRC-8, as built by AppendPacket. The bytes
// belong to the caller again when it returns. It returns false while the previous packet has not
// left (see Host.Sent), and for a packet that is longer than MaxPacket or too short.
func (p *Port) Send(packet []byte) bool {
	f := p.f
	if p.host == nil {
		panic(fmt.Sprintf("myrinet: port %v is a switch's and sends nothing by itself", p))
	}
	if p.sending || p.busy != nil || len(packet) < framing.FabricLeast || len(packet) > f.opts.MaxPacket {
		return false
	}
	w := f.take(packet)
	f.stats.Sent++
	f.stats.UnderWay++
	p.sending = true
	w.claim(p, int64(f.opts.Cable))
	return true
}

// MaxPacket returns the largest size of a packet in bytes.
func (p *Port) MaxPacket() int { return p.f.opts.MaxPacket }

// Sending reports whether the last packet is still leaving.
func (p *Port) Sending() bool { return p.sending }

// Resume makes a packet that waits for Host.Room ask again.
func (p *Port) Resume() {
	if w := p.current; w != nil && w.state == waiting && p.host != nil && p.host.Room(w.size()) {
		w.unblock()
		w.finish()
	}
}

func (f *Fabric) take(packet []byte) *worm {
	var w *worm
	if n := len(f.free); n > 0 {
		w = f.free[n-1]
		f.free = f.free[:n-1]
	} else {
		w = &worm{f: f}
		w.arrived, w.expired = w.onArrived, w.onExpired
	}
	w.data = append(w.data[:0], packet...)
	w.path, w.head, w.tail, w.base, w.held = w.path[:0], 0, 0, 0, 0
	w.cut, w.lost, w.dirty, w.at = false, false, false, nil
	return w
}

// recycle keeps the worm for reuse once nothing refers to it.
func (w *worm) recycle() {
	if w.state == gone && w.held == 0 {
		w.f.free = append(w.f.free, w)
	}
}

func (w *worm) size() int { return len(w.data) - w.head }

// claim makes the head leave by port p now. It arrives at the other end after delay.
func (w *worm) claim(p *Port, delay int64) {
	f, now := w.f, w.f.world.Now()
	p.stats.PacketsOut++
	p.stats.BytesOut += uint64(w.size())
	w.path = append(w.path, hop{port: p, base: w.base, late: now - w.base, size: w.size()})
	w.held++
	p.busy, p.freeAt = w, 0
	if !p.alive() { // possible only at a card: a switch checks this first
		w.drop(&p.stats.NoCable)
		return
	}
	w.base += delay
	w.at, w.state = p.peer, flying
	f.stats.Hops++
	f.world.At(now+delay, w.arrived)
}

// onArrived handles the arrival of the head at the end of its last link.
func (w *worm) onArrived() {
	if w.state == dying {
		w.state = gone
		w.recycle()
		return
	}
	if w.at.current != nil {
		w.at.next, w.state = w, standing
		w.block()
		return
	}
	w.enter()
}

// enter moves the head into the buffer of its input, and determines where it goes next.
func (w *worm) enter() {
	p := w.at
	p.current, w.state = w, waiting
	last := &w.path[len(w.path)-1]
	last.late = w.f.world.Now() - w.base
	p.stats.PacketsIn++
	p.stats.BytesIn += uint64(w.size())
	w.f.disturb(w, p)
	w.settle()
	if p.sw != nil {
		w.route()
	} else if p.host.Room(w.size()) {
		w.finish()
	} else {
		w.block()
	}
}

// route reads and removes the first byte of the route at a switch, and requests the output.
func (w *worm) route() {
	p := w.at
	x := &p.sw.x
	first := w.data[w.head]
	out, drop := x.Way(p.index, first, &p.stats.NoRoute, &p.stats.BadTurn)
	if drop == nil && !p.sw.port[out].alive() {
		drop = &p.stats.NoCable
	}
	if drop != nil {
		w.drop(drop)
		return
	}
	w.strip(first)
	if w.size() == 0 {
		w.drop(&p.stats.NoRoute) // no byte of the truncated packet is left
		return
	}
	if !x.Ask(p.index, out) {
		w.block()
		return
	}
	w.leave(out)
}

// strip removes the first byte and updates the CRC-8, such that a wrong CRC-8 stays wrong.
func (w *worm) strip(first byte) {
	if w.head++; !w.cut {
		end := len(w.data) - framing.FabricCRCSize
		w.data[end] = framing.StripCRC8(w.data[end], first, end-w.head)
	}
}

// leave makes the head continue by an output that is free for it.
func (w *worm) leave(out int) {
	w.claim(w.at.sw.port[out], int64(w.f.opts.CutThrough+w.f.opts.Cable))
}

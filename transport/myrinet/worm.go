package myrinet

import (
	"fmt"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// A worm is a packet under way in virtual time. Its head goes from port to port, an
// event each; its tail follows as far behind as the packet is long and the buffers
// between them are full, an event for each link that it leaves.
//
// The links that it holds form its path. Let d(i) be the delays of the links before
// link i, and late(i) when its head entered the buffer at the end of link i, less
// d(i+1): what all waiting up to there has cost. Byte k passes the beginning of link i
// not before the head has been there, and byte k - n*slack not before the head has
// entered the buffer n links farther on. So the tail of a packet of z bytes leaves
// link i at
//
//	d(i) + max over m >= i of late(m) + max(z - (m-i)*slack, 0) / bandwidth
//
// That is known as soon as the buffers from link i on hold the whole packet, or nothing
// can stop its head any more. A buffer holds bytes of one packet at a time: the head of
// the next one stands on the link until the tail of the first has left the buffer.
type worm struct {
	f     *Fabric
	data  []byte // the packet as it was sent, less what is cut off
	head  int    // bytes of the route that are used up
	path  []hop  // links whose tail has not been scheduled begin at tail
	tail  int
	base  int64 // d of the end of the path
	held  int   // links that are held
	at    *Port // input that the head has entered, stands before or flies to
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
	port *Port // where it begins
	base int64 // d
	late int64
	size int // bytes of the packet on this link
}

type wormState uint8

const (
	flying   wormState = iota // on the last link of its path
	standing                  // before a buffer that another packet has
	waiting                   // in the buffer, for an output or a card
	leaving                   // nothing holds up its head any more: it goes into its card, or away
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

// Sending reports whether the last packet has not left yet.
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

// claim has the head leave by port p now; it arrives at the other end after delay.
func (w *worm) claim(p *Port, delay int64) {
	f, now := w.f, w.f.world.Now()
	p.stats.PacketsOut++
	p.stats.BytesOut += uint64(w.size())
	w.path = append(w.path, hop{port: p, base: w.base, late: now - w.base, size: w.size()})
	w.held++
	p.busy, p.freeAt = w, 0
	if !p.alive() { // only at a card: a switch looks before
		w.drop(&p.stats.NoCable)
		return
	}
	w.base += delay
	w.at, w.state = p.peer, flying
	f.stats.Hops++
	f.world.At(now+delay, w.arrived)
}

// onArrived: the head is at the end of its last link.
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

// enter puts the head into the buffer of its input and finds out where it goes.
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

// route reads and strips the first byte at a switch and asks for the output.
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
		w.drop(&p.stats.NoRoute) // what was cut short has nothing left
		return
	}
	if !x.Ask(p.index, out) {
		w.block()
		return
	}
	w.leave(out)
}

// strip takes the first byte off and puts the CRC-8 right, so that one that was wrong
// stays so.
func (w *worm) strip(first byte) {
	if w.head++; !w.cut {
		end := len(w.data) - framing.FabricCRCSize
		w.data[end] = framing.StripCRC8(w.data[end], first, end-w.head)
	}
}

// leave has the head go on by an output that is free for it.
func (w *worm) leave(out int) {
	w.claim(w.at.sw.port[out], int64(w.f.opts.CutThrough+w.f.opts.Cable))
}

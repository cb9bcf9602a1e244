package shm

import (
	"encoding/binary"
	"runtime"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/transport"
)

// Ready implements transport.Link. It costs a few atomic loads, plus one for each peer.
func (l *Link) Ready() bool {
	return len(*l.peers.Load()) > 0 && l.look() // separate, so that Ready is inlined: most links have no peers
}

// look reports whether a peer has sent something, or must be removed.
func (l *Link) look() bool {
	for _, p := range *l.peers.Load() {
		found := p.in.ready()
		runtime.KeepAlive(p.mem)
		if found {
			return true
		}
	}
	if !l.idle.Load() {
		latch.ReleaseBool(&l.idle, true)
	}
	return l.events.Load()
}

// share is the part of a ring whose frames one call of Recv lends at most, so that the writer has
// room in the meantime.
const share = 8

// Recv implements transport.Link. It makes no system call, unless a peer has disappeared.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	if l.events.Load() {
		l.seeOff()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, transport.ErrClosed
	}
	l.loan.from = nil
	views = views[:min(len(views), transport.MaxBatch)]
	// A frame that has arrived after Ready found nothing is usually the only one, so Recv returns at most one frame
	// then. Checking for a second one would take the cache line of the next record away from its writer.
	if l.idle.Load() {
		latch.ReleaseBool(&l.idle, false)
		views = views[:min(len(views), 1)]
	}
	peers := *l.peers.Load()
	for _, p := range peers {
		p.in.free()
	}
	if l.turn++; l.turn >= len(peers) {
		l.turn = 0
	}
	for i := range peers { // round-robin, so that each peer is sometimes first
		if i += l.turn; i >= len(peers) {
			i -= len(peers)
		}
		if n = l.receive(peers[i], views, n); l.loan.from != nil {
			break
		}
	}
	if n > 0 {
		l.stats.RxCalls++
	}
	return n, nil
}

// receive appends frames from p to the first n of views, and returns the new n.
func (l *Link) receive(p *peer, views [][]byte, n int) int {
	if p.failure != nil {
		return n
	}
	nbytes := 0
	for tries := 0; n < len(views) && nbytes <= l.ring/share && tries < transport.MaxBatch; tries++ {
		view, lent, r := p.in.nextFrame()
		if r == done && lent && !(p.inReads.Load() != 0 && l.loan.parse(view)) {
			r = broken
		}
		if r == broken {
			l.fail(p)
		}
		if r != done {
			break
		}
		if lent {
			view = view[:lentBegin]
		}
		if p.private != nil { // from here on the frame does not change
			view = p.private[nbytes:][:copy(p.private[nbytes:], view)]
		}
		nbytes += len(view)
		port, ok := l.concerns(view)
		if !ok { // no Link sends this: the ring has been overwritten
			l.fail(p)
			break
		}
		if port != ethertype.PortAll && !l.info.Ports.Contains(port) || !l.from(p, view) {
			l.stats.RxFiltered++
			continue
		}
		views[n] = view
		p.at.latest = p
		n++
		l.stats.RxFrames++
		l.stats.RxBytes += uint64(len(view))
		if lent {
			l.stats.RxBytes += uint64(l.loan.size - lentBegin)
			l.loan.from = p
			break
		}
	}
	return n
}

// from reports whether a frame's source is the segment's address and a port that the kernel vouches
// for: a process that writes to p's ring can write any source.
func (l *Link) from(p *peer, frame []byte) bool {
	frame = frame[:ethertype.HeaderSize]
	return binary.BigEndian.Uint64(frame[framing.OffsetSrc:]) == l.origin &&
		p.ports.Contains(binary.BigEndian.Uint16(frame[framing.OffsetSrcPort:]))
}

// seeOff removes the peers that sweep finds and calls OnDeparture's function, which may send.
func (l *Link) seeOff() {
	l.mu.Lock()
	var gone []departure
	if !l.closed {
		gone = l.sweep()
	}
	f := l.gone
	l.mu.Unlock()
	for _, d := range gone {
		if f != nil {
			f(d.ports, d.why)
		}
	}
}

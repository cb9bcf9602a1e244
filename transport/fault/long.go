package fault

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames are treated as all others are: whole. So on the way in, where faults
// are wanted, they are fetched from the wrapped link at once, and the caller
// fetches them from here.
type long struct {
	link transport.LongLink // the wrapped link, or nil
	on   bool               // somebody wants them
	room []byte             // for a frame that has arrived; made for the first one
	part [1][]byte
	lent []byte // the last view's frame, if it is a long one
}

// StartLong implements transport.LongLink: what the wrapped link says.
func (l *Link) StartLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.long.on = l.long.link != nil && l.long.link.StartLong()
	return l.long.on
}

// limit returns how long a frame may be.
func (l *Link) limit() int {
	if l.long.on {
		return ethertype.LongMTU + ethertype.EthernetSize
	}
	return l.inner.Info().MTU + ethertype.EthernetSize
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int {
	switch {
	case l.long.lent != nil:
		return len(l.long.lent) - transport.LongBegin
	case l.long.link == nil || l.rx != nil:
		return 0
	}
	return l.long.link.Rest()
}

// Fetch implements transport.LongLink. Wait may send at the same time.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rx == nil {
		return l.long.link != nil && l.long.link.Fetch(from, parts)
	}
	frame := l.long.lent
	if frame == nil || from < ethertype.HeaderSize || from > transport.LongBegin {
		return false
	}
	l.long.lent = nil
	frame = frame[from:]
	for _, part := range parts {
		if copy(part, frame) < len(part) {
			return false
		}
		frame = frame[len(part):]
	}
	return true
}

// whole returns a frame that has arrived, the last of a batch, of which the
// wrapped link has not given everything yet; nil if it has lost the rest. mu is held.
func (t *long) whole(view []byte) []byte {
	rest := 0
	if t.link != nil {
		rest = t.link.Rest()
	}
	if rest == 0 {
		return view
	}
	size := len(view) + rest
	if cap(t.room) < size {
		t.room = make([]byte, max(size, ethertype.LongMTU+ethertype.EthernetSize))
	}
	frame := t.room[:size]
	copy(frame, view[:ethertype.HeaderSize])
	t.part[0] = frame[ethertype.HeaderSize:]
	if !t.link.Fetch(ethertype.HeaderSize, t.part[:]) {
		return nil
	}
	return frame
}

// longer returns the length beyond which frames from inner are long ones.
func (t *long) longer(inner transport.Link) int {
	if t.link == nil {
		return math.MaxInt
	}
	return max(inner.Info().MTU+ethertype.EthernetSize, transport.LongBegin)
}

// lend fills views with the first frames that are ready, up to a long one, and
// returns how many. mu is held.
func (l *Link) lend(views [][]byte) (n int) {
	longer := l.long.longer(l.inner)
	for n < min(len(views), transport.MaxBatch, len(l.rx.ready)) && l.long.lent == nil {
		views[n] = l.rx.ready[n].data
		if len(views[n]) > longer {
			l.long.lent, views[n] = views[n], views[n][:transport.LongBegin]
		}
		n++
	}
	return n
}

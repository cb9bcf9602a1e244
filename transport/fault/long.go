package fault

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames are treated as all others are: whole. So on the way in, where faults
// are wanted, they are fetched from the wrapped link at once, and the caller
// fetches them from here.

// StartLong implements transport.LongLink: what the wrapped link says.
func (l *Link) StartLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takesLong = l.base.StartLong()
	return l.takesLong
}

// limit returns how long a frame may be.
func (l *Link) limit() int {
	if l.takesLong {
		return framing.LongMTU + ethertype.EthernetSize
	}
	return l.Link.Info().MTU + ethertype.EthernetSize
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int {
	if inner := l.Long.Link(); l.rx == nil && inner != nil {
		return inner.Rest()
	}
	return l.Long.Rest()
}

// Fetch implements transport.LongLink. Wait may send at the same time.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if inner := l.Long.Link(); l.rx == nil && inner != nil {
		return inner.Fetch(from, parts)
	}
	return l.Long.Fetch(from, parts)
}

// longer returns the length beyond which frames of the wrapped link are long ones.
func (l *Link) longer() int {
	if l.Long.Link() == nil {
		return math.MaxInt
	}
	return max(l.Link.Info().MTU+ethertype.EthernetSize, transport.LongBegin)
}

// lend fills views with the first frames that are ready, up to a long one, and
// returns how many. mu is held.
func (l *Link) lend(views [][]byte) (n int) {
	longer := l.longer()
	for n < min(len(views), transport.MaxBatch, len(l.rx.ready)) && !l.Long.Lent() {
		views[n] = l.rx.ready[n].data
		if len(views[n]) > longer {
			views[n] = l.Long.Lend(views[n])
		}
		n++
	}
	return n
}

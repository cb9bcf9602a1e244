package fault

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames are treated as all others are: whole. So on the way in, where faults
// are wanted, they are fetched from the wrapped link at once, and the caller
// fetches them from here.

// StartLong implements transport.LongLink: what the wrapped link says.
func (l *faulty) StartLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takesLong = l.base.StartLong()
	return l.takesLong
}

// limit returns how long a frame may be.
func (l *faulty) limit() int {
	if l.takesLong {
		return framing.LongMTU + ethertype.EthernetSize
	}
	return l.Link.Info().MTU + ethertype.EthernetSize
}

// Rest implements transport.LongLink.
func (l *faulty) Rest() int {
	if inner := wrap.Long(&l.base).Link(); l.rx == nil && inner != nil {
		return inner.Rest()
	}
	return wrap.Long(&l.base).Rest()
}

// Fetch implements transport.LongLink. Wait may send at the same time.
func (l *faulty) Fetch(from int, parts [][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if inner := wrap.Long(&l.base).Link(); l.rx == nil && inner != nil {
		return inner.Fetch(from, parts)
	}
	return wrap.Long(&l.base).Fetch(from, parts)
}

// longer returns the length beyond which frames of the wrapped link are long ones.
func (l *faulty) longer() int {
	if wrap.Long(&l.base).Link() == nil {
		return math.MaxInt
	}
	return max(l.Link.Info().MTU+ethertype.EthernetSize, transport.LongBegin)
}

// lend fills views with the first frames that are ready, up to a long one, and
// returns how many. mu is held.
func (l *faulty) lend(views [][]byte) (n int) {
	longer := l.longer()
	for n < min(len(views), transport.MaxBatch, len(l.rx.ready)) && !wrap.Long(&l.base).Lent() {
		views[n] = l.rx.ready[n].data
		if len(views[n]) > longer {
			views[n] = wrap.Long(&l.base).Lend(views[n])
		}
		n++
	}
	return n
}

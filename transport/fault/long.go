package fault

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// Long frames are treated whole, like all other frames. If received frames are subject to faults,
// the link fetches long frames from the wrapped link at once, and the caller fetches them from this
// link.

// StartLong implements transport.LongLink. It returns the wrapped link's result.
func (l *faulty) StartLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takesLong = l.base.StartLong()
	return l.takesLong
}

// limit returns the maximum length of a frame in bytes.
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

// longer returns the length above which a frame of the wrapped link is a long frame.
func (l *faulty) longer() int {
	if wrap.Long(&l.base).Link() == nil {
		return math.MaxInt
	}
	return max(l.Link.Info().MTU+ethertype.EthernetSize, transport.LongBegin)
}

// lend fills views with the first ready frames, up to a long frame, and returns their number. The
// caller must hold mu.
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

package shm

import (
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// some reports whether a neighbour has sent something to this rank.
func (l *Layer) some() bool {
	for _, n := range l.list {
		if n.came.Load() != n.taken || n.served.some() || n.returned.some() {
			return true
		}
	}
	return false
}

// serve processes stores, requests and results of neighbours, and wakes the neighbours that wait
// for results.
func (l *Layer) serve() error {
	l.look()
	for _, n := range l.list {
		if n.nudge && l.err == nil {
			if err := l.nudge(n); err != nil {
				return err
			}
		}
	}
	return l.err
}

// nudge wakes a neighbour that must be woken. It does not wait. If there is no credit, because the
// neighbour has slept repeatedly without answering, it defers the wake-up to the next look. The
// neighbour checks by itself after each slice.
func (l *Layer) nudge(n *neighbour) error {
	sent, err := l.far.Nudge(n.rank)
	n.nudge = !sent
	return err
}

// look processes stores, requests and results of neighbours. It takes at most as many entries of
// each as its rings hold, so that a neighbour that writes as fast as this rank reads cannot keep it
// busy.
func (l *Layer) look() {
	for _, n := range l.list {
		if l.err != nil {
			return
		}
		if came := n.came.Load(); came != n.taken {
			l.countStored(n, came)
		}
		for i := 0; i < slots && l.takeResult(n); i++ {
		}
		for i := 0; i < slots && l.takeRequest(n); i++ {
		}
	}
}

// mostStored is more bytes than a rank can store between two checks of its counter.
const mostStored = 1 << 50

// countStored adds the bytes that a neighbour reports as stored.
func (l *Layer) countStored(n *neighbour, came uint64) {
	if came-n.taken > mostStored { // also if it has counted backwards
		l.blame(n, errGarbled)
		return
	}
	l.count.Stored += came - n.taken
	n.taken = came
}

// takeResult processes a result of a call, and reports whether there was one.
func (l *Layer) takeResult(n *neighbour) bool {
	e := &l.entry
	some, err := n.returned.dequeue(e)
	if err != nil {
		l.blame(n, err)
		return false
	}
	if !some {
		return false
	}
	if e.kind != kindResult || e.op >= slots || !n.calls[e.op].used || e.n > len(n.calls[e.op].result) {
		l.stats.Strays++
		l.blame(n, errGarbled)
		return false
	}
	c := &n.calls[e.op]
	copy(c.result, e.data[:e.n])
	*c = waiting{}
	l.count.Outstanding--
	return true
}

// takeRequest serves a request of a neighbour, and reports whether there was one. A call stays in
// its ring until there is room for its result.
func (l *Layer) takeRequest(n *neighbour) bool {
	room, err := n.results.room()
	some := false
	if err == nil && room {
		some, err = n.served.dequeue(&l.entry)
	}
	if err != nil {
		l.blame(n, err)
		return false
	}
	if !some {
		return false
	}
	switch e := &l.entry; {
	case e.kind == kindControl:
		l.cfg.Handler.Control(n.rank, e.data[:e.n])
	case e.kind == kindCall && e.n <= layer.MaxCall:
		k := l.cfg.Handler.Call(n.rank, e.fn, e.data[:e.n], l.ran[:])
		n.results.put(kindResult, 0, e.op, l.ran[:k])
		l.stats.Replies++
		if n.sleep.Load() == 1 && n.sleep.CompareAndSwap(1, 0) {
			n.nudge = true
		}
	default:
		l.stats.Strays++
		l.blame(n, errGarbled)
		return false
	}
	return true
}

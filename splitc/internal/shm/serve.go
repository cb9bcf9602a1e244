package shm

import (
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// some reports whether a neighbour has something for this rank.
func (l *Layer) some() bool {
	for _, n := range l.list {
		if n.came.Load() != n.taken || n.served.some() || n.returned.some() {
			return true
		}
	}
	return false
}

// serve takes in what neighbours have stored, asked and answered, and wakes those that
// wait for what they have asked.
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

// nudge wakes a neighbour that is to be woken. It waits for nothing: without a credit, as if
// the neighbour has slept again and again and has answered no nudge, it leaves that to the next
// look. The neighbour looks by itself after each slice.
func (l *Layer) nudge(n *neighbour) error {
	sent, err := l.far.Nudge(n.rank)
	n.nudge = !sent
	return err
}

// look takes in what neighbours have stored, asked and answered: of each, no more than its rings
// hold, so that one which writes as fast as this rank reads does not keep it.
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

// mostStored is more than a rank can have stored between two looks at its counter.
const mostStored = 1 << 50

// countStored adds what a neighbour says that it has stored.
func (l *Layer) countStored(n *neighbour, came uint64) {
	if came-n.taken > mostStored { // or has counted back
		l.blame(n, errGarbled)
		return
	}
	l.count.Stored += came - n.taken
	n.taken = came
}

// takeResult takes a result of a call, and reports whether there was one.
func (l *Layer) takeResult(n *neighbour) bool {
	e := &l.entry
	some, err := n.returned.take(e)
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

// takeRequest serves a request of a neighbour, and reports whether there was one. A call
// stays in its ring until there is room for its result.
func (l *Layer) takeRequest(n *neighbour) bool {
	room, err := n.results.room()
	some := false
	if err == nil && room {
		some, err = n.served.take(&l.entry)
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

package driver

import (
	"math"
	"sync/atomic"
)

// shut is the sign bit of Gate.state. The other bits count the goroutines between Enter and
// Leave.
const shut = math.MinInt32

// Gate prevents Close from closing a descriptor that a call still uses. A goroutine may use the
// descriptor between Enter and Leave. Shut returns when no goroutine uses it and none can start to.
// Goroutines may share a Gate. Each use costs two atomic additions.
type Gate struct {
	state   atomic.Int32
	drained chan struct{} // a token makes Shut check again
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{drained: make(chan struct{}, 1)} }

// Enter reports whether the gate is open. If so, the caller must call Leave.
func (g *Gate) Enter() bool {
	if g.state.Add(1) > 0 {
		return true
	}
	g.Leave()
	return false
}

// Leave ends a use of the descriptor.
func (g *Gate) Leave() {
	if g.state.Add(-1) == shut {
		select {
		case g.drained <- struct{}{}:
		default:
		}
	}
}

// Open reports whether the gate has not been shut.
func (g *Gate) Open() bool { return g.state.Load() >= 0 }

// Shut shuts the gate, calls evict to make blocked calls return, and waits for them. It returns
// false at once if the gate was already shut.
func (g *Gate) Shut(evict func()) bool {
	if g.state.Or(shut) < 0 {
		return false
	}
	evict()
	for g.state.Load() != shut {
		<-g.drained
	}
	return true
}

package driver

import (
	"math"
	"sync/atomic"
)

// shut is the sign bit of Gate.state; the rest counts who is inside.
const shut = math.MinInt32

// Gate keeps Close from pulling a descriptor from under a call that uses it:
// who is inside may use it, and Shut returns when nobody is or will be. It is
// shared between goroutines and costs two atomic additions per passage.
type Gate struct {
	state   atomic.Int32
	drained chan struct{} // a token wakes Shut to look again
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{drained: make(chan struct{}, 1)} }

// Enter reports whether the gate is open; if so, the caller calls Leave later.
func (g *Gate) Enter() bool {
	if g.state.Add(1) > 0 {
		return true
	}
	g.Leave()
	return false
}

// Leave ends what Enter began.
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

// Shut shuts the gate, calls evict to hurry those inside, and waits for them.
// It returns false at once if the gate was shut before.
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

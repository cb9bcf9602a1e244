package driver

import (
	"sync"

	"github.com/bobnet-go/bobnet/transport"
)

// Base is what links on sockets share besides the sockets: the gate, the counters, the clock,
// and the order of closing. A driver embeds it and calls Init first.
type Base struct {
	gate  *Gate // entered around each use of a descriptor
	count Counters

	hooks  Hooks
	mu     sync.Mutex    // serialises ReadDrops, because some kernel counters are reset when read
	closed chan struct{} // closed when Close has finished
}

// Hooks are the parts of a Base that each driver has of its own.
type Hooks struct {
	Evict   func()        // ends a Wait that blocks
	Dropped func() uint64 // returns how many frames the kernel has dropped since the last call
	Check   func() error  // what transport.Checker asks, while the link is open
	Release func() error  // closes the sockets, which no goroutine uses any more
}

// Init prepares b. It returns the gate, which the driver enters around each use of a descriptor,
// and the counters. They are no fields of Base that drivers would show to users.
func Init(b *Base, h Hooks) (*Gate, *Counters) {
	b.gate, b.closed, b.hooks = NewGate(), make(chan struct{}), h
	return b.gate, &b.count
}

// Now implements transport.Link. All links of a process have the same clock.
func (b *Base) Now() int64 { return Now() }

// Stats implements transport.Link. It makes a system call for each socket that receives.
// Frames that a filter of the kernel rejected are not known, and not in RxFiltered.
func (b *Base) Stats() transport.Stats {
	if b.gate.Enter() {
		b.readDrops()
		b.gate.Leave()
	}
	return b.count.Snapshot()
}

func (b *Base) readDrops() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.RxDrops.Add(b.hooks.Dropped())
}

// Close implements transport.Link. It waits for calls under way. Only Wait can take time, and
// Close wakes it.
func (b *Base) Close() error {
	if !b.gate.Shut(b.hooks.Evict) {
		<-b.closed
		return nil
	}
	b.readDrops()
	err := b.hooks.Release()
	close(b.closed)
	return err
}

// Check implements transport.Checker.
func (b *Base) Check() error {
	if !b.gate.Enter() {
		return transport.ErrClosed
	}
	defer b.gate.Leave()
	return b.hooks.Check()
}

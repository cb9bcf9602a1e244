package driver

import (
	"sync"

	"github.com/bobnet-go/bobnet/transport"
)

// Base is the common part of links on sockets: gate, counters, clock, and the order of closing. A
// driver embeds it and calls Init first.
type Base struct {
	gate  *Gate // entered around each use of a descriptor
	count Counters

	hooks  Hooks
	mu     sync.Mutex    // serialises ReadDrops, because some kernel counters are reset when read
	closed chan struct{} // closed when Close has finished
}

// Hooks are the parts of a Base that differ between drivers.
type Hooks struct {
	Evict   func()        // ends a blocked Wait
	Dropped func() uint64 // returns how many frames the kernel has dropped since the previous call
	Check   func() error  // implements transport.Checker while the link is open
	Release func() error  // closes the sockets, which are no longer in use
}

// Init prepares b. It returns the gate, which the driver must enter around each use of a
// descriptor, and the counters. They are results, not fields, so that drivers do not export them.
func Init(b *Base, h Hooks) (*Gate, *Counters) {
	b.gate, b.closed, b.hooks = NewGate(), make(chan struct{}), h
	return b.gate, &b.count
}

// Now implements transport.Link. All links of a process have the same clock.
func (b *Base) Now() int64 { return Now() }

// Stats implements transport.Link. It makes a system call for each receiving socket. RxFiltered
// lacks frames that a filter in the kernel has rejected, because their number is unknown.
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

// Close implements transport.Link. It waits for calls in progress. Only Wait can block, and Close
// wakes it.
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

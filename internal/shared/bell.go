package shared

import (
	"sync/atomic"
	"time"
)

const (
	// BellSize is the number of bytes of memory that a Bell occupies.
	BellSize = 128

	// Bits is the number of sources of events that a Bell distinguishes.
	Bits = 32 * Words

	// Words is the number of 32-bit words that contain these bits.
	Words = 8
)

// Bell lets one process notify another that an event of one of Bits sources has occurred, and lets
// the other process sleep until then. Only one goroutine may sleep at a time; any goroutine may
// call the other methods. The bell is in memory that both processes can write. A process that
// writes invalid data there can only miss events itself, or wake the other process without an
// event.
type Bell struct {
	count  *atomic.Uint32 // number of calls that have ended a sleep; the futex
	sleeps *atomic.Uint32 // not 0: a goroutine sleeps, or is about to
	bits   [Words]*atomic.Uint32
	woken  atomic.Bool // Wake was called, in this process
	memory *Memory
}

// NewBell returns the bell at offset at of m, where it occupies BellSize bytes. at must be a
// multiple of 4.
func NewBell(m *Memory, at int) *Bell {
	b := m.Bytes()[at : at+BellSize]
	l := &Bell{count: word(b, 0), sleeps: word(b, 4), memory: m}
	for i := range l.bits {
		l.bits[i] = word(b, BellSize/2+4*i)
	}
	return l
}

// Ring notifies the other process of an event of source k. It makes a system call only if the other
// process sleeps.
func (l *Bell) Ring(k int) {
	if l.bits[k/32].Or(1 << (k % 32)); l.sleeps.Load() != 0 {
		l.strike()
	}
}

func (l *Bell) strike() {
	l.count.Add(1)
	wake(l.count)
}

// Ready reports whether events have occurred that Take has not returned.
func (l *Bell) Ready() bool {
	for _, w := range l.bits {
		if w.Load() != 0 {
			return true
		}
	}
	return false
}

// Take returns which of the sources 32*i to 32*i+31 have had events since the last call, one bit
// for each source.
func (l *Bell) Take(i int) uint32 {
	if l.bits[i].Load() == 0 {
		return 0
	}
	return l.bits[i].Swap(0)
}

// Wake ends the current or the next Sleep in this process.
func (l *Bell) Wake() {
	l.woken.Store(true)
	l.strike()
}

// Count returns the argument for Await: a number that changes whenever a sleep is ended.
func (l *Bell) Count() uint32 { return l.count.Load() }

// Want sets whether Ring ends Await. If it does, each Ring costs the other process a system call.
func (l *Bell) Want(yes bool) {
	v := uint32(0)
	if yes {
		v = 1
	}
	l.sleeps.Store(v)
}

// Await blocks until Wake or, if Want was set, Ring has been called since Count returned count. It
// may also return without a reason. A process uses either Await or Sleep.
func (l *Bell) Await(count uint32) { sleep(l.count, count, int64(longest)) }

// longest is the maximum duration of a sleep. The other process can write data to the bell that
// make this process miss a call. It then checks again after this time.
const longest = time.Second

// Sleep blocks until Ready is true, Wake has been called, or d has passed. It may also return
// without a reason.
func (l *Bell) Sleep(d time.Duration) {
	seen := l.count.Load()
	l.sleeps.Store(1)
	if !l.Ready() && !l.woken.Swap(false) && d > 0 {
		sleep(l.count, seen, int64(min(d, longest)))
		l.woken.Store(false)
	}
	l.sleeps.Store(0)
}

package shared

import (
	"sync/atomic"
	"time"
)

const (
	// BellSize is how many bytes of memory a Bell takes.
	BellSize = 128

	// Bits is how many things one process can tell another by a Bell.
	Bits = 32 * Words

	// Words is how many words these bits are in.
	Words = 8
)

// Bell is by what one process tells another that something has happened to one of Bits things, and
// where the other one sleeps meanwhile. One goroutine may sleep at a time; others may call the rest.
// The bell is memory of both: a process that writes nonsense there loses what it should hear, or
// has the other one look in vain.
type Bell struct {
	count  *atomic.Uint32 // of calls that have ended a sleep
	sleeps *atomic.Uint32 // somebody sleeps, or is about to
	bits   [Words]*atomic.Uint32
	woken  atomic.Bool // by Wake, in this process
	memory *Memory
}

// NewBell returns the bell at an offset, a multiple of 4, of memory. There it takes BellSize bytes.
func NewBell(m *Memory, at int) *Bell {
	b := m.Bytes()[at : at+BellSize]
	l := &Bell{count: word(b, 0), sleeps: word(b, 4), memory: m}
	for i := range l.bits {
		l.bits[i] = word(b, BellSize/2+4*i)
	}
	return l
}

// Ring tells the other process that something has happened to thing k. It makes a system call only
// if that one sleeps.
func (l *Bell) Ring(k int) {
	if l.bits[k/32].Or(1 << (k % 32)); l.sleeps.Load() != 0 {
		l.strike()
	}
}

func (l *Bell) strike() {
	l.count.Add(1)
	wake(l.count)
}

// Ready reports whether something has happened that Take has not returned.
func (l *Bell) Ready() bool {
	for _, w := range l.bits {
		if w.Load() != 0 {
			return true
		}
	}
	return false
}

// Take returns to which of the things 32*i to 32*i+31 something has happened since it was called
// last, a bit each.
func (l *Bell) Take(i int) uint32 {
	if l.bits[i].Load() == 0 {
		return 0
	}
	return l.bits[i].Swap(0)
}

// Wake ends the present or the next Sleep in this process.
func (l *Bell) Wake() {
	l.woken.Store(true)
	l.strike()
}

// Count returns a number that each end of a sleep changes, for Await.
func (l *Bell) Count() uint32 { return l.count.Load() }

// Want says whether Ring is to end Await, which takes the other process a system call.
func (l *Bell) Want(yes bool) {
	v := uint32(0)
	if yes {
		v = 1
	}
	l.sleeps.Store(v)
}

// Await blocks until a Ring while that is wanted, or Wake, since Count has returned count. It may return for
// no reason. Who uses Await does not use Sleep.
func (l *Bell) Await(count uint32) { sleep(l.count, count, int64(longest)) }

// longest is the longest sleep. What the other process writes to the bell may make this one miss a
// call, and then it looks again after that time.
const longest = time.Second

// Sleep blocks until Ready, Wake has been called, or the time is up. It may return for no reason.
func (l *Bell) Sleep(d time.Duration) {
	seen := l.count.Load()
	l.sleeps.Store(1)
	if !l.Ready() && !l.woken.Swap(false) && d > 0 {
		sleep(l.count, seen, int64(min(d, longest)))
		l.woken.Store(false)
	}
	l.sleeps.Store(0)
}

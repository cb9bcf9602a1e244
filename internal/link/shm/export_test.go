package shm

import (
	"net"
	"time"
	"unsafe"
)

// Shared returns all that a peer shares with the link, as the peer can write to
// it; nil if it has none.
func (l *Link) Shared() []byte {
	for _, p := range *l.peers.Load() {
		if p.conn != nil {
			return unsafe.Slice((*byte)(p.mem.base), p.mem.span())
		}
	}
	return nil
}

// Address returns the name of the socket of a block, spelled that way.
func (l *Link) Address(block string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: l.segment.prefix() + block}
}

// BellName returns the name of the link's bell.
func (l *Link) BellName() *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: l.segment.bell(l.instance).Name}
}

// Instance returns what tells the link from others.
func (l *Link) Instance() uint64 { return l.instance }

// Peers returns how many peers the link has, besides itself.
func (l *Link) Peers() (n int) {
	for _, p := range *l.peers.Load() {
		if p.conn != nil {
			n++
		}
	}
	return n
}

// Ended returns how many of the peers are known to be gone.
func (l *Link) Ended() (n int) {
	for _, p := range *l.peers.Load() {
		if p.ended.Load() {
			n++
		}
	}
	return n
}

// StreamEnded reports whether the stream of a peer has ended.
var StreamEnded = streamEnded

// FreedLines is after how many lines the reader of a ring says that they are free.
func FreedLines(ring int) int { return ring / freeEvery / line }

// Bounds of what waits for an answer.
const (
	KeptFrames = keptFrames
	KeptBytes  = keptBytes
)

// InWait runs f, with now called in each Wait when it has begun and before it
// sleeps, as on a kernel that cannot wait for several words.
func InWait(now, f func()) {
	old := futexesWork
	defer func() { futexesWork = old }()
	futexesWork = func() bool {
		now()
		return false
	}
	f()
}

// BeforeSleep runs f, with now called in each Wait when it has chosen how to sleep.
func BeforeSleep(now, f func()) {
	old := futexesWork
	defer func() { futexesWork = old }()
	futexesWork = func() bool {
		now()
		return old()
	}
	f()
}

// FutexPeers is how many peers a link can have that sleeps on futexes.
const FutexPeers = futexWaitMax - 1

// WithoutFutexes runs f as on a kernel that cannot wait for several words.
func WithoutFutexes(f func()) {
	old := futexesWork
	defer func() { futexesWork = old }()
	futexesWork = func() bool { return false }
	f()
}

// SetCallTime sets how long a station may take to answer a call, until restore.
func SetCallTime(d time.Duration) (restore func()) {
	was := callTime
	callTime = d
	return func() { callTime = was }
}

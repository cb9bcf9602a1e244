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

// Lends reports whether every peer was asked to lend frames.
func (l *Link) Lends() bool {
	for _, p := range *l.peers.Load() {
		if p.conn != nil && p.inReads.Load() != readsAlways {
			return false
		}
	}
	return true
}

// Pace chooses between both ways.
type Pace struct{ pace }

// NewPace returns a Pace of a station to which nothing has been sent.
func NewPace() *Pace {
	p := new(Pace)
	p.init()
	return p
}

// Lends reports whether the next frame is lent.
func (p *Pace) Lends() bool { return p.way == byLoan }

// Sent records a frame, the speed of the copy into the ring if it was not lent, and those of the receiver's copies.
func (p *Pace) Sent(own, ring, loan uint64) {
	if p.way == byRing {
		p.own = min(p.own, own)
	}
	p.sent([ways]uint64{byRing: ring, byLoan: loan})
}

// ParseLoan parses a record, and locates want bytes from an offset of the frame on. It returns the size of the frame,
// and of what would be read without the mark.
func ParseLoan(record []byte, from, want int) (size, sum int, ok bool) {
	var o loan
	if !o.parse(record) || from < o.head || !o.locate(uint64(from-o.head), uint64(want)) {
		return 0, 0, false
	}
	for _, v := range o.remote[:lentParts] {
		sum += v.Len
	}
	return o.size, sum, true
}

package shm

import (
	"net"
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

// Peers returns how many peers the link has, besides itself.
func (l *Link) Peers() (n int) {
	for _, p := range *l.peers.Load() {
		if p.conn != nil {
			n++
		}
	}
	return n
}

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

// WithoutFutexes runs f as on a kernel that cannot wait for several words.
func WithoutFutexes(f func()) {
	old := futexesWork
	defer func() { futexesWork = old }()
	futexesWork = func() bool { return false }
	f()
}

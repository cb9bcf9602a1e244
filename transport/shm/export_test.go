package shm

import "unsafe"

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

// Peers returns how many peers the link has, besides itself.
func (l *Link) Peers() (n int) {
	for _, p := range *l.peers.Load() {
		if p.conn != nil {
			n++
		}
	}
	return n
}

// WithoutFutexes runs f as on a kernel that cannot wait for several words.
func WithoutFutexes(f func()) {
	old := futexesWork
	defer func() { futexesWork = old }()
	futexesWork = func() bool { return false }
	f()
}

package shm

import (
	"net"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// peer is another station, seen through one pair of rings; or the link itself,
// through one ring.
type peer struct {
	instance uint64 // of its link
	block    int    // of its ports: the one that it was called by, or calls from
	ports    transport.PortRange
	mem      *memory
	out      writer
	in       reader
	outSleep *atomic.Uint32 // the peer says that it sleeps
	inSleep  *atomic.Uint32 // we do
	conn     *net.UnixConn  // its end tells that the peer is gone; nil for the link itself
	bell     int            // a socket that wakes the peer; -1 if there is none

	ended   atomic.Bool // conn has ended: what lies in the ring still counts
	failure error       // the rings are not to be used any more, and why
}

// newPeer returns the peer at the other end of m. maker says which end is ours.
func newPeer(m *memory, maker bool) *peer {
	ours, theirs := 0, 1
	if !maker {
		ours, theirs = 1, 0
	}
	p := &peer{mem: m, bell: -1, out: newWriter(m, ours), outSleep: m.sleep(ours), inSleep: m.sleep(theirs)}
	p.in.init(m, theirs)
	return p
}

// newSelf returns the link's way to itself.
func newSelf(size int) (*peer, error) {
	m, err := newMemory(size)
	if err != nil {
		return nil, err
	}
	p := &peer{mem: m, bell: -1, out: newWriter(m, 0), outSleep: m.sleep(0), inSleep: m.sleep(0)}
	p.in.init(m, 0)
	return p, nil
}

// newMemory returns memory of this process alone.
func newMemory(size int) (*memory, error) {
	fd, err := newFile(size)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mapFile(fd, size)
}

// discard lets go of everything. Nobody uses views of the ring any more.
func (p *peer) discard() {
	if p.conn != nil {
		p.conn.Close()
	}
	if p.bell >= 0 {
		unix.Close(p.bell)
		p.bell = -1
	}
	p.mem.retire()
}

// admit makes p one of the peers, unless the link is closed. The frames that
// waited for its block go to it. mu is held.
func (l *Link) admit(p *peer) bool {
	old := *l.peers.Load()
	if l.closed || len(old) >= peersMax {
		return false
	}
	if r := l.route[p.block]; r == nil || r.instance != p.instance || r.ended.Load() {
		for _, q := range old { // the ports have passed on to another link
			if q.block == p.block && q.conn != nil && q.instance != p.instance && q.failure == nil {
				q.failure = ErrGone
				l.events.Store(true)
			}
		}
		l.route[p.block] = p
	}
	l.known.Store(true)
	list := append(old[:len(old):len(old)], p)
	l.peers.Store(&list)
	if c := l.calls[p.block]; c != nil {
		l.flush(l.route[p.block], c)
	}
	l.work.Go(func() { l.watch(p) })
	l.notify()
	return true
}

// peersMax bounds what the link keeps for its peers. A station has one, or two
// when both called at the same time, or one for each block of its ports.
const peersMax = 512

// watch waits for the end of p's stream. Nothing is ever sent there.
func (l *Link) watch(p *peer) {
	var b [1]byte
	_, _ = p.conn.Read(b[:])
	p.ended.Store(true)
	l.events.Store(true)
	l.notify()
}

// departure is what OnDeparture is to be told.
type departure struct {
	ports transport.PortRange
	why   error
}

// sweep removes the peers that are gone: those whose rings have failed, and
// those that have ended when everything that they sent has been received. mu
// is held; the views of the last Recv have expired.
func (l *Link) sweep() (gone []departure) {
	l.events.Store(false)
	var keep []*peer
	for _, p := range *l.peers.Load() {
		switch {
		case p.failure == nil && !p.ended.Load():
			keep = append(keep, p)
			continue
		case p.failure == nil && p.in.ready():
			keep = append(keep, p)
			l.events.Store(true)
			continue
		case p.failure == nil:
			p.failure = ErrGone
		}
		if l.route[p.block] == p {
			l.route[p.block] = nil
		}
		gone = append(gone, departure{blockPorts(p.block, p.ports), p.failure})
		defer p.discard() // when nobody finds it any more
	}
	l.peers.Store(&keep)
	return gone
}

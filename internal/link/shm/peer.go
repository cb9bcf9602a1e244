package shm

import (
	"net"
	"os"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// peer is another station, seen through one pair of rings; or the link itself,
// through one ring.
type peer struct {
	instance uint64              // of its link, which says so
	claimed  transport.PortRange // by its link, which says so
	own      int                 // the block of our ports that it called, or was called from
	block    int                 // the block of its ports
	at       *place              // of the two
	ports    transport.PortRange // its ports of that block, which the frames in its ring come from
	mem      *memory
	out      writer
	in       reader
	outSleep *atomic.Uint32     // the peer says that it sleeps
	inSleep  *atomic.Uint32     // we do
	conn     *net.UnixConn      // its end tells that the peer is gone; nil for the link itself
	bell     *unix.SockaddrUnix // wakes the peer
	litter   []int              // descriptors that it has sent and should not have
	uid      uint32             // its user, once that is known
	private  []byte             // where frames of a peer of another user are copied before they are judged; else nil
	to       string             // the name of its socket
	caller   bool               // it has called, and the link has answered

	ended   atomic.Bool // conn has ended: what lies in the ring still counts
	failure error       // the rings are not to be used any more, and why
}

// place stands for a pair of blocks, one of the link's ports and one of other ports.
// Their two sockets prove who is at either end.
type place struct {
	peer *peer // frames go to it
	call *call // an attempt to get it

	heard uint64 // the last instance that has sent something by rings that are gone since
	open  int    // peers and attempts of which something is still open
}

// openMax bounds open at a place, so that one caller cannot take room from others. A
// station has one pair of rings there, or two when both ends called at the same time. An
// earlier station at these ports, which is not yet known to be gone, may have as many.
const openMax = 8

// reserve takes room for one more peer, if there is any. mu is held.
func (at *place) reserve() bool {
	if at.open == openMax {
		return false
	}
	at.open++
	return true
}

// share has p use m, of whose two rings it writes ours and reads theirs.
func (p *peer) share(m *memory, ours, theirs int) {
	p.mem, p.out, p.outSleep, p.inSleep = m, newWriter(m, ours), m.sleep(ours), m.sleep(theirs)
	p.in.init(m, theirs)
}

// introduce makes p what it says of itself in its hello.
func (l *Link) introduce(p *peer, h hello) {
	p.claimed = h.ports
	p.instance, p.ports, p.bell = h.instance, blockPorts(p.block, h.ports), l.segment.bell(h.instance)
}

// newSelf returns the link's way to itself.
func newSelf(size int, ports transport.PortRange) (*peer, error) {
	m, err := newMemory(size)
	if err != nil {
		return nil, err
	}
	p := &peer{at: new(place), ports: ports}
	p.share(m, 0, 0)
	return p, nil
}

// newMemory returns memory of this process only.
func newMemory(size int) (*memory, error) {
	fd, err := newFile(size)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mapFile(fd, size)
}

// discard releases what p has. No views of the ring are in use any more. The peer can make the
// closing of its descriptors take long: the room at the place stays taken until it is done.
func (l *Link) discard(p *peer) {
	if p.mem != nil {
		p.mem.retire()
	}
	passfd.Close(p.uid, p.litter...)
	leave := func() {
		l.mu.Lock()
		p.at.open--
		l.mu.Unlock()
	}
	if p.conn == nil {
		go leave() // the lock is held here
		return
	}
	passfd.CloseConn(p.uid, p.conn, leave) // the peer sees the end before anything that is sent from now on
}

// distrust gives p room for copies of its frames if it is another user's, who could change them
// after they were judged. A user's own processes, and root's, can do worse. An engine takes at
// most so much in one Recv, whose views expire with the next.
func (l *Link) distrust(p *peer) {
	if p.uid != 0 && int64(p.uid) != int64(os.Geteuid()) {
		p.private = make([]byte, l.ring/share+2*ethertype.MaxFrame)
	}
}

// admit makes p, for which there is room, one of the peers, unless the link is
// closed. The frames that waited for its block go to it. mu is held.
func (l *Link) admit(p *peer) bool {
	if l.closed {
		return false
	}
	old := *l.peers.Load()
	if r := p.at.peer; r != nil && r.hasEnded() {
		r.ended.Store(true)
	}
	if r := p.at.peer; r == nil || r.instance != p.instance || r.ended.Load() {
		for _, q := range old { // the ports have passed on to another link
			if q.block == p.block && q.conn != nil && q.instance != p.instance && q.failure == nil {
				q.failure = ErrGone
				l.events.Store(true)
			}
		}
		p.at.peer = p
	}
	l.distrust(p)
	l.known.Store(true)
	list := append(old[:len(old):len(old)], p)
	l.peers.Store(&list)
	if c := p.at.call; c != nil {
		l.flush(p.at.peer, c)
	}
	go l.watch(p)
	l.notify()
	return true
}

// Lives implements optional.Witness: the stream of a process that has ended has ended, too.
func (l *Link) Lives(port uint16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range *l.peers.Load() {
		if p.conn != nil && p.ports.Contains(port) && p.failure == nil && !p.ended.Load() && !p.hasEnded() {
			return true
		}
	}
	return false
}

// hasEnded reports whether p's stream has ended, or has anything else to say:
// nothing is ever sent there. It asks and does not read, because a caller, who
// has made both ends, can have reads block whatever we have set.
func (p *peer) hasEnded() (yes bool) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { yes = streamEnded(fd) })
	return yes || err != nil
}

// streamEnded is asked again when a signal has interrupted it, which says nothing of the
// stream: Go's scheduler signals threads that are busy.
func streamEnded(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, 0)
	}
	return n != 0
}

// watch waits for the end of p's stream.
func (l *Link) watch(p *peer) {
	if raw, err := p.conn.SyscallConn(); err == nil {
		_ = raw.Read(streamEnded)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && p.failure == nil {
		p.ended.Store(true)
		if other := l.otherRings(p); other != nil && p.at.peer == p {
			p.at.peer = other
		}
		l.events.Store(true)
		l.notify()
	}
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
		other := l.otherRings(p)
		if p.at.peer == p {
			p.at.peer = other
		}
		if p.in.next.Load() > 0 {
			p.at.heard = p.instance
		}
		switch q := p.at.peer; {
		case q != nil && q.instance != p.instance: // its ports have passed on to another link
		case other != nil && p.ended.Load(): // the peer has given these rings up, and goes on
		case p.givenUp(): // it may be there, and call again
		default:
			gone = append(gone, departure{p.ports, p.failure})
		}
		defer l.discard(p) // when nobody finds it any more
	}
	l.peers.Store(&keep)
	return gone
}

// givenUp reports whether p has called and ended its stream before it sent anything. A
// caller calls because a frame waits, which it sends as soon as it has an answer; one that has
// waited too long, as happens where many processes share few processors, sends nothing and
// lives. Of one that has sent by other rings before, these are the last that ended. mu is held.
func (p *peer) givenUp() bool {
	return p.caller && p.ended.Load() && p.in.next.Load() == 0 && p.at.heard != p.instance
}

// otherRings returns the rings that p's station shares with the link besides p
// and that are in order, or nil: there are two when both stations have called,
// at the same time or when one has given the first up. mu is held.
func (l *Link) otherRings(p *peer) *peer {
	for _, q := range *l.peers.Load() {
		if q != p && q.conn != nil && q.at == p.at && q.instance == p.instance && q.failure == nil && !q.ended.Load() {
			return q
		}
	}
	return nil
}

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
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

// answer takes the calls that come to block own of the link's ports, until the link closes.
func (l *Link) answer(own int) {
	for {
		a, err := receiveHello(l.socket(own))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		b, ok := l.segment.blockAt(a.from, a.uid())
		if err == nil && ok && len(a.fds) == helloRights && a.instance != l.instance && a.holds(b) && l.admits(a.who) {
			a.fds = l.accept(a, own, b)
		}
		if err == nil && ok && a.cut && l.admits(a.who) {
			l.tried(OwnFault(os.NewSyscallError("recvmsg", unix.EMFILE)))
		}
		passfd.Close(a.uid(), a.fds...)
	}
}

// hangUp ends the goroutines that answer, and then closes the sockets that others call, which
// gives the ports back. The kernel closes what callers have passed and nobody has received.
func (l *Link) hangUp() {
	for _, conn := range l.sockets {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
	l.answers.Wait()
	for _, conn := range l.sockets {
		passfd.Promptly(func() { conn.Close() })
	}
	for _, name := range l.files {
		name.Clean()
	}
}

// accept makes a peer of a caller from block b, and returns what is left of
// the descriptors. What cannot be believed is refused: the caller's stream ends.
func (l *Link) accept(a arrival, own, b int) []int {
	h, fds := a.hello, a.fds
	p := &peer{own: own, block: b, at: &l.places[own][b], to: a.from, caller: true, uid: a.uid()}
	if !isStream(fds[0]) || checkFile(fds[1], h.ring) != nil {
		return fds
	}
	l.introduce(p, h)
	l.mu.Lock()
	room := p.at.reserve()
	l.mu.Unlock()
	if !room {
		return fds
	}
	m, err := mapFile(fds[1], h.ring)
	unix.Close(fds[1])
	if err == nil {
		p.share(m, 1, 0)
		p.conn, err = stream(fds[0])
	} else {
		passfd.Close(p.uid, fds[0])
	}
	if err == nil {
		err = l.greet(p.conn)
	}
	l.tried(OwnFault(err))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || !l.admit(p) {
		l.discard(p)
	}
	return nil
}

// greet answers over a caller's stream, into an empty buffer.
func (l *Link) greet(conn *net.UnixConn) error {
	return control(conn, func(fd int) error {
		return unix.Sendmsg(fd, l.hello().append(nil), ourselves(), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// hello is what each side says of itself:
//
//	offset  size  field
//	     0     8  "bobshm02"
//	     8     8  instance of the link
//	    16     2  lowest port
//	    18     2  highest port
//	    20     4  size of a ring in bytes
//
// With a caller's come two descriptors: one end of the stream, and the memfd; with
// either's the user whose it is.
// The instance is in the name of the link's bell.
type hello struct {
	instance uint64
	ports    transport.PortRange
	ring     int
}

const (
	helloMagic  = "bobshm02"
	helloSize   = 24
	helloRights = 2
)

// holds reports whether block b is among those that the hello says.
func (h hello) holds(b int) bool {
	return driver.Block(h.ports.Lo) <= b && b <= driver.Block(h.ports.Hi)
}

func (l *Link) hello() hello { return hello{l.instance, l.info.Ports, l.ring} }

func (h hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint64(b, h.instance)
	b = binary.BigEndian.AppendUint16(b, h.ports.Lo)
	b = binary.BigEndian.AppendUint16(b, h.ports.Hi)
	return binary.BigEndian.AppendUint32(b, uint32(h.ring))
}

// parse decodes and judges what a peer says of itself.
func (h *hello) parse(b []byte) error {
	if len(b) != helloSize || string(b[:8]) != helloMagic {
		return fmt.Errorf("%w: its hello is not of this version: build both programs from one source", ErrBroken)
	}
	h.instance = binary.BigEndian.Uint64(b[8:])
	h.ports = transport.PortRange{Lo: binary.BigEndian.Uint16(b[16:]), Hi: binary.BigEndian.Uint16(b[18:])}
	h.ring = int(binary.BigEndian.Uint32(b[20:]))
	if h.ports.Lo == 0 || h.ports.Hi < h.ports.Lo {
		return fmt.Errorf("%w: ports %d..%d", ErrBroken, h.ports.Lo, h.ports.Hi)
	}
	return nil
}

// arrival is a hello that has arrived, and what the kernel says of it.
type arrival struct {
	hello
	fds  []int       // that came with it; the receiver gives them to passfd.Close
	from string      // the name of a caller's socket; "" if it has none
	who  *unix.Ucred // nil if the kernel has not said
	cut  bool        // this process has too many open files for more of the descriptors
}

// uid returns the user whose the descriptors were.
func (a *arrival) uid() uint32 {
	if a.who == nil {
		return passfd.Unknown
	}
	return a.who.Uid
}

// receiveHello reads a hello. The descriptors are those that came, whatever the error.
func receiveHello(conn *net.UnixConn) (a arrival, err error) {
	text := make([]byte, helloSize+1)
	m, err := passfd.ReceiveAny(conn, text)
	if err != nil {
		return a, err
	}
	a.fds, a.who, a.cut = m.FDs, m.Who, m.Cut
	if m.From != nil {
		a.from = m.From.Name
	}
	return a, a.parse(text[:m.N])
}

// post sends text and descriptors to p's block. While the queue there is full it
// tries again, until end or the link closes.
func (l *Link) post(p *peer, text, rights []byte, end time.Time) error {
	to := &unix.SockaddrUnix{Name: p.to}
	for pause := time.Millisecond; ; pause = min(2*pause, postPause) {
		sent := control(l.socket(p.own), func(fd int) error {
			return unix.Sendmsg(fd, text, rights, to, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
		if !errors.Is(sent, unix.EAGAIN) || time.Now().After(end) || l.superseded(p) {
			return sent
		}
		select {
		case <-l.closing:
			return transport.ErrClosed
		case <-time.After(pause):
		}
	}
}

// postPause is the longest pause between two tries of post.
const postPause = 50 * time.Millisecond

// present returns the name of the socket of the process that holds block b. With files it looks for
// root's first.
func (l *Link) present(b int, files bool) (name string, ok bool) {
	at := l.segment.name(b)
	if files && unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.File}) == nil {
		return at.File, true
	}
	return at.Abstract, unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.Abstract}) == nil
}

// hasFiles reports whether root may have sockets that are files.
func (s *segment) hasFiles() bool { return s.files != "" && unix.Access(s.files, unix.F_OK) == nil }

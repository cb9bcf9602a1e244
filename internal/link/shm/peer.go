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

// peer is another station at the other end of one pair of rings, or the link itself with one ring.
type peer struct {
	instance            uint64              // of its link, as announced by the peer
	instanceAt          uint64              // address of that in its process, as announced by the peer
	claimed             transport.PortRange // ports of its link, as announced by the peer
	own                 int                 // the block of our ports at this end of the call
	block               int                 // the block of its ports
	at                  *place              // of the two blocks
	ports               transport.PortRange // its ports in that block: the only valid sources of frames in its ring
	mem                 *memory
	out                 writer
	in                  reader
	outSleep            *atomic.Uint32                // the peer sleeps
	inSleep             *atomic.Uint32                // we sleep
	outReads            *atomic.Uint64                // not 0: the peer fetches lent frames
	inReads             *atomic.Uint64                // we do
	outSpeeds, inSpeeds [classes][ways]*atomic.Uint64 // of the receiver copies, in picoseconds per byte; 0: unmeasured
	conn                *net.UnixConn                 // ends when the peer's process ends; nil for the link itself
	bell                *unix.SockaddrUnix            // wakes the peer
	litter              []int                         // descriptors that it should not have sent
	uid                 uint32                        // its user, if known
	pid                 int                           // its process if its memory may be read (ReadMemory), else 0
	private             []byte                        // buffer to which the frames of another user's peer are copied before they are checked; nil for trusted peers
	to                  string                        // name of its socket
	caller              bool                          // it has called, and the link has answered

	ended   atomic.Bool // conn has ended; frames in the ring still count
	failure error       // why the rings must not be used any more, or nil
}

// place is a pair of blocks: one of the link's ports and one of other ports. The two sockets
// identify the processes at both ends.
type place struct {
	peer *peer // destination of frames
	call *call // attempt to reach the peer

	pace   [classes]pace         // of frames to there
	copies [classes][ways]copies // of frames from there
	latest *peer                 // the rings of the last frame from there; nil before the first one
	heard  uint64                // the last instance that has sent something through rings that no longer exist
	open   int                   // number of peers and calls that still hold resources
}

// openMax limits open at a place, so that one caller cannot use up the resources of others. A
// station needs one pair of rings there, or two if both ends called at the same time. An earlier
// station at these ports, whose end is not yet known, may hold as many.
const openMax = 8

// reserve reserves room for one more peer, if possible. The caller must hold mu.
func (at *place) reserve() bool {
	if at.open == openMax {
		return false
	}
	at.open++
	return true
}

// share lets p use m: it writes ring ours and reads ring theirs.
func (p *peer) share(m *memory, ours, theirs int) {
	p.mem, p.out, p.outSleep, p.inSleep = m, newWriter(m, ours), m.sleep(ours), m.sleep(theirs)
	p.in.init(m, theirs)
	p.outReads, p.inReads = m.word(ours, offReads), m.word(theirs, offReads)
	for class := range classes {
		for way := range ways {
			at := offSpeeds + 8*(ways*class+way)
			p.outSpeeds[class][way], p.inSpeeds[class][way] = m.word(ours, at), m.word(theirs, at)
		}
	}
}

// introduce applies the peer's hello to p.
func (l *Link) introduce(p *peer, h hello) {
	p.claimed, p.instanceAt = h.ports, h.at
	p.instance, p.ports, p.bell = h.instance, blockPorts(p.block, h.ports), l.segment.bell(h.instance)
}

// newSelf returns the link's ring to itself.
func newSelf(size int, ports transport.PortRange) (*peer, error) {
	m, err := newMemory(size)
	if err != nil {
		return nil, err
	}
	p := &peer{at: new(place), ports: ports}
	p.share(m, 0, 0)
	return p, nil
}

// newMemory returns memory that only this process uses.
func newMemory(size int) (*memory, error) {
	fd, err := newFile(size)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mapFile(fd, size)
}

// discard releases the resources of p. No views of the ring may be in use. The peer can delay the
// closing of its descriptors, so the room at the place stays reserved until that is done.
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
		go leave() // the caller holds the lock
		return
	}
	passfd.CloseConn(p.uid, p.conn, leave) // the peer sees the end of the stream before anything that is sent from now on
}

// distrust allocates a buffer for copies of p's frames if p belongs to another user, who could
// change them after the check. Processes of this user and of root have other ways to do harm. The
// engine's views expire with the next Recv, which bounds the buffer.
func (l *Link) distrust(p *peer) {
	if p.uid != 0 && int64(p.uid) != int64(os.Geteuid()) {
		p.private = make([]byte, l.ring/share+2*ethertype.MaxFrame)
	}
}

// admit adds p to the peers, unless the link is closed, and sends it the frames that waited for its
// block. p must have a reservation. The caller must hold mu.
func (l *Link) admit(p *peer) bool {
	if l.closed {
		return false
	}
	old := *l.peers.Load()
	if r := p.at.peer; r != nil && r.hasEnded() {
		r.ended.Store(true)
	}
	if r := p.at.peer; r == nil || r.instance != p.instance || r.ended.Load() {
		for _, q := range old { // another link has the ports now
			if q.block == p.block && q.conn != nil && q.instance != p.instance && q.failure == nil {
				q.failure = ErrGone
				l.events.Store(true)
			}
		}
		p.at.peer = p
	}
	l.distrust(p)
	l.permit(p)
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

// Lives implements optional.Witness: the stream of a process ends with the process.
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

// hasEnded reports whether p's stream has ended or holds data, which the protocol never sends. It
// polls and does not read: a caller has created both ends, and can make reads block whatever flags
// we have set.
func (p *peer) hasEnded() (yes bool) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { yes = streamEnded(fd) })
	return yes || err != nil
}

// streamEnded retries after signals, which say nothing about the stream: Go's scheduler sends
// signals to busy threads.
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

// departure is an argument of OnDeparture's function.
type departure struct {
	ports transport.PortRange
	why   error
}

// sweep removes the peers with failed rings, and the peers that have ended after
// everything that they sent has been received. The views of the last Recv must have expired. The
// caller must hold mu.
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
		case q != nil && q.instance != p.instance: // another link has its ports now
		case other != nil && p.ended.Load(): // the peer has given these rings up, and continues with others
		case p.givenUp(): // it may still exist, and call again
		default:
			gone = append(gone, departure{p.ports, p.failure})
		}
		defer l.discard(p) // when no goroutine can find it any more
	}
	l.peers.Store(&keep)
	return gone
}

// givenUp reports whether p has called and closed its stream before it sent anything. A caller
// calls because a frame waits, which it sends after the answer. If the answer takes too long, as
// may happen with many processes on few CPUs, it gives up without sending and lives on. If the peer
// has already sent something through other rings, these were its last ones, and givenUp is false.
// The caller must hold mu.
func (p *peer) givenUp() bool {
	return p.caller && p.ended.Load() && p.in.next.Load() == 0 && p.at.heard != p.instance
}

// otherRings returns the other working rings that p's station shares with the link, or nil. There
// are two pairs if both stations have called at the same time, or called again after giving the
// first pair up. The caller must hold mu.
func (l *Link) otherRings(p *peer) *peer {
	for _, q := range *l.peers.Load() {
		if q != p && q.conn != nil && q.at == p.at && q.instance == p.instance && q.failure == nil && !q.ended.Load() {
			return q
		}
	}
	return nil
}

// answer handles calls to block own of the link's ports until the link closes.
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

// hangUp ends the goroutines that answer calls, and then closes the sockets, which frees the ports.
// The kernel closes descriptors that callers have sent and no one has received.
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

// accept creates a peer for a caller from block b, and returns the unused descriptors. An invalid
// call is refused: the caller's stream ends.
func (l *Link) accept(a arrival, own, b int) []int {
	h, fds := a.hello, a.fds
	p := &peer{own: own, block: b, at: &l.places[own][b], to: a.from, caller: true, uid: a.uid(), pid: readableProcess(a.who)}
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

// greet sends the answer over a caller's stream, whose buffer is empty.
func (l *Link) greet(conn *net.UnixConn) error {
	return control(conn, func(fd int) error {
		return unix.Sendmsg(fd, l.hello().append(nil), ourselves(), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// hello is how each side introduces itself:
//
//	offset  size  field
//	     0     8  "bobshm03"
//	     8     8  instance of the link
//	    16     2  lowest port
//	    18     2  highest port
//	    20     4  size of a ring in bytes
//	    24     8  address of the instance in the sender's memory
//
// A caller's hello carries two descriptors: one end of the stream, and the memfd. Both hellos carry
// the sender's user. The instance is part of the name of the link's bell.
type hello struct {
	instance uint64
	ports    transport.PortRange
	ring     int
	at       uint64
}

const (
	helloMagic  = "bobshm03"
	helloSize   = 32
	helloRights = 2
)

// holds reports whether block b is among the announced ports.
func (h hello) holds(b int) bool {
	return driver.Block(h.ports.Lo) <= b && b <= driver.Block(h.ports.Hi)
}

func (l *Link) hello() hello { return hello{l.instance, l.info.Ports, l.ring, addressOf(&l.instance)} }

func (h hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint64(b, h.instance)
	b = binary.BigEndian.AppendUint16(b, h.ports.Lo)
	b = binary.BigEndian.AppendUint16(b, h.ports.Hi)
	b = binary.BigEndian.AppendUint32(b, uint32(h.ring))
	return binary.BigEndian.AppendUint64(b, h.at)
}

// parse decodes and checks a hello.
func (h *hello) parse(b []byte) error {
	if len(b) != helloSize || string(b[:8]) != helloMagic {
		return fmt.Errorf("%w: its hello has another version (build both programs from the same source)", ErrBroken)
	}
	h.instance = binary.BigEndian.Uint64(b[8:])
	h.ports = transport.PortRange{Lo: binary.BigEndian.Uint16(b[16:]), Hi: binary.BigEndian.Uint16(b[18:])}
	h.ring = int(binary.BigEndian.Uint32(b[20:]))
	h.at = binary.BigEndian.Uint64(b[24:])
	if h.ports.Lo == 0 || h.ports.Hi < h.ports.Lo {
		return fmt.Errorf("%w: ports %d..%d", ErrBroken, h.ports.Lo, h.ports.Hi)
	}
	return nil
}

// arrival is a received hello, with the kernel's information about its sender.
type arrival struct {
	hello
	fds  []int       // received descriptors; the receiver passes them to passfd.Close
	from string      // name of the caller's socket; "" if it has none
	who  *unix.Ucred // nil if the kernel has not provided it
	cut  bool        // this process has too many open files to receive all descriptors
}

// uid returns the user who has sent the descriptors.
func (a *arrival) uid() uint32 {
	if a.who == nil {
		return passfd.Unknown
	}
	return a.who.Uid
}

// receiveHello reads a hello. a.fds holds the received descriptors even if there is an error.
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

// post sends text and descriptors to p's block. While the queue there is full it retries, until end
// or until the link closes.
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

// postPause is the longest pause between retries of post.
const postPause = 50 * time.Millisecond

// present returns the name of the socket of the process that holds block b. With files it first
// looks for root's socket.
func (l *Link) present(b int, files bool) (name string, ok bool) {
	at := l.segment.name(b)
	if files && unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.File}) == nil {
		return at.File, true
	}
	return at.Abstract, unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.Abstract}) == nil
}

// hasFiles reports whether root may have sockets that are files.
func (s *segment) hasFiles() bool { return s.files != "" && unix.Access(s.files, unix.F_OK) == nil }

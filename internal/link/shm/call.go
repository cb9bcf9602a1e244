package shm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Calls create rings. The caller sends a hello to the socket that holds a block of ports, with a
// memfd and one end of a stream. The station there answers over the stream with its own hello.

// callTime limits the time until a station answers, which may have to wait for a CPU. A variable
// for tests.
var callTime = 2 * time.Second

// Limits of the frames that wait for a station to answer.
const (
	keptFrames = 256
	keptBytes  = minRing
)

// call is an attempt to reach a block of ports, with the frames that wait for it. Link.mu guards
// it.
type call struct {
	frames [][]byte
	bytes  int
	stream *net.UnixConn
	off    bool
}

// hangUp ends the call, because the link is closed.
func (c *call) hangUp() {
	c.off = true
	if c.stream != nil {
		_ = c.stream.CloseRead()
	}
}

// keep stores a copy of f, from block own, for block b, and starts a call there. The caller must
// hold mu.
func (l *Link) keep(own, b int, f []byte) {
	at := &l.places[own][b]
	if at.call == nil && at.reserve() {
		p := &peer{own: own, block: b, at: at}
		c := new(call)
		at.call = c
		l.work.Go(func() { l.call(p, c) })
	}
	c := at.call
	if c == nil || len(c.frames) == keptFrames || c.bytes+len(f) > keptBytes {
		l.stats.TxDrops++
		return
	}
	c.frames = append(c.frames, f)
	c.bytes += len(f)
}

// flush sends the frames that waited to p. The caller must hold mu.
func (l *Link) flush(p *peer, c *call) {
	for _, f := range c.frames {
		l.put(p, &transport.Frame{Head: f}, len(f))
	}
	c.frames, c.bytes = nil, 0
}

// call creates rings to p's block. Without an answer the waiting frames are dropped, as a switch
// drops frames for an unknown port.
func (l *Link) call(p *peer, c *call) {
	err := OwnFault(l.dial(p, c))
	l.tried(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || !l.admit(p) {
		l.discard(p)
	}
	l.stats.TxDrops += uint64(len(c.frames))
	p.at.call = nil
}

// dial calls p's block, and completes p from the answer.
func (l *Link) dial(p *peer, c *call) error {
	var there bool
	if p.to, there = l.present(p.block, l.segment.hasFiles()); !there {
		return ErrGone
	}
	mine, theirs, err := streamPair()
	if err != nil {
		return err
	}
	p.conn = mine
	if l.mu.Lock(); c.off {
		err = transport.ErrClosed
	}
	c.stream = mine
	l.mu.Unlock()
	end := time.Now().Add(callTime)
	if err == nil {
		err = l.offer(p, theirs, end)
	}
	unix.Close(theirs) // the peer's copy must be the only one, so that its death ends the stream
	if err == nil {
		err = l.await(p, end)
	}
	return err
}

// offer creates rings and sends them to p's block, with the peer's end of the stream.
func (l *Link) offer(p *peer, theirs int, end time.Time) error {
	fd, err := newFile(l.ring)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	m, err := mapFile(fd, l.ring)
	if err != nil {
		return err
	}
	p.share(m, 0, 1)
	return l.post(p, l.hello().append(nil), append(ourselves(), unix.UnixRights(theirs, fd)...), end)
}

// await waits for the answer to offer.
func (l *Link) await(p *peer, end time.Time) error {
	var a arrival
	var err error
	for again := true; again; {
		next := time.Now().Add(postPause)
		if again = next.Before(end); !again {
			next = end
		}
		_ = p.conn.SetReadDeadline(next)
		a, err = receiveHello(p.conn)
		again = again && errors.Is(err, os.ErrDeadlineExceeded) && !l.superseded(p)
	}
	_ = p.conn.SetReadDeadline(time.Time{})
	p.uid, p.pid = a.uid(), readableProcess(a.who)
	if p.litter = a.fds; err != nil || len(a.fds) > 0 || !a.holds(p.block) || !l.admits(a.who) {
		return fmt.Errorf("%w: no answer from the ports %v (%v)", ErrGone, blockPorts(p.block, transport.AllPorts), err)
	}
	l.introduce(p, a.hello)
	return nil
}

// superseded reports whether the call goes to a process that has only the abstract name of a block,
// and root has since given the block to another process, which must be called instead.
func (l *Link) superseded(p *peer) bool {
	name := l.segment.name(p.block)
	return p.to == name.Abstract && name.Alive()
}

// streamPair returns a connected pair of stream sockets; theirs is for the peer.
func streamPair() (mine *net.UnixConn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	if err = askWho(fds[0]); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, -1, os.NewSyscallError("SO_PASSCRED", err)
	}
	if mine, err = stream(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, -1, err
	}
	return mine, fds[1], nil
}

// isStream reports whether fd is a Unix stream. On such a socket no call blocks if told not to; for
// other files that is not known.
func isStream(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && typ == unix.SOCK_STREAM
}

// stream passes fd to the netpoller, and owns it.
func stream(fd int) (*net.UnixConn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "bobnet")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("%w: its stream is not a Unix socket", ErrBroken)
	}
	return u, nil
}

package shm

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Calls make rings. The caller sends a hello to the socket that holds a block
// of ports, with a memfd, one end of a stream and its bell; the station there
// answers over the stream with its own hello and bell.

// callTime is how long a station may take to answer: it need not run at the
// moment.
const callTime = 2 * time.Second

// Bounds of what is kept for a station until it has answered.
const (
	keptFrames = 256
	keptBytes  = minRing
)

// call is an attempt to reach a block of ports, and the frames that wait for
// it. Link.mu guards it.
type call struct {
	frames [][]byte
	octets int
	stream *net.UnixConn
	off    bool
}

// hangUp ends the call, because the link is closed.
func (c *call) hangUp() {
	c.off = true
	if c.stream != nil {
		c.stream.Close()
	}
}

// keep keeps a copy of f for block b, and calls there. mu is held.
func (l *Link) keep(b int, f []byte) {
	c := l.calls[b]
	if c == nil {
		c = new(call)
		l.calls[b] = c
		l.work.Go(func() { l.call(b, c) })
	}
	if len(c.frames) == keptFrames || c.octets+len(f) > keptBytes {
		l.stats.TxDrops++
		return
	}
	c.frames = append(c.frames, f)
	c.octets += len(f)
}

// flush sends the frames that waited to p. mu is held.
func (l *Link) flush(p *peer, c *call) {
	for _, f := range c.frames {
		l.put(p, &transport.Frame{Head: f}, len(f))
	}
	c.frames, c.octets = nil, 0
}

// call makes rings to block b. Without an answer the frames are dropped, as a
// switch drops what is for nobody.
func (l *Link) call(b int, c *call) {
	p, err := l.dial(b, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !l.admit(p) {
		p.discard()
	}
	l.stats.TxDrops += uint64(len(c.frames))
	delete(l.calls, b)
}

// dial calls block b and returns the peer that answers.
func (l *Link) dial(b int, c *call) (p *peer, err error) {
	if !l.present(b) {
		return nil, ErrGone
	}
	mine, theirs, err := streamPair()
	if err != nil {
		return nil, err
	}
	if l.mu.Lock(); c.off {
		err = transport.ErrClosed
	}
	c.stream = mine
	l.mu.Unlock()
	end := time.Now().Add(callTime)
	var m *memory
	if err == nil {
		m, err = l.offer(b, theirs, end)
	}
	unix.Close(theirs) // so that the peer's end is the only one: its death ends the stream
	if err == nil {
		p, err = l.await(b, mine, m, end)
	}
	if err != nil {
		mine.Close()
	}
	return p, err
}

// offer makes rings and sends them to block b, with the peer's end of the
// stream.
func (l *Link) offer(b, theirs int, end time.Time) (*memory, error) {
	fd, err := newFile(l.ring)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	m, err := mapFile(fd, l.ring)
	if err != nil {
		return nil, err
	}
	if err := l.post(b, l.hello().append(nil), unix.UnixRights(theirs, fd, l.bell.ring), end); err != nil {
		m.retire()
		return nil, err
	}
	return m, nil
}

// await waits for the answer to offer.
func (l *Link) await(b int, mine *net.UnixConn, m *memory, end time.Time) (*peer, error) {
	_ = mine.SetReadDeadline(end)
	h, fds, _, err := receiveHello(mine)
	_ = mine.SetReadDeadline(time.Time{})
	if err != nil || len(fds) != 1 {
		closeAll(fds)
		m.retire()
		return nil, fmt.Errorf("%w: no answer from the ports %v (%v)", ErrGone, blockPorts(b, transport.AllPorts), err)
	}
	p := newPeer(m, true)
	p.instance, p.block, p.ports, p.conn, p.bell = h.instance, b, h.ports, mine, fds[0]
	return p, nil
}

// streamPair returns a connected pair of stream sockets, one of them for the
// peer.
func streamPair() (mine *net.UnixConn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	if mine, err = stream(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, -1, err
	}
	return mine, fds[1], nil
}

// stream hands fd, which it takes over, to the netpoller.
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
		return nil, fmt.Errorf("%w: its stream is no Unix socket", ErrBroken)
	}
	return u, nil
}

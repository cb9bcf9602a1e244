package shm

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// answer takes the calls that come to block own of the link's ports.
func (l *Link) answer(own int) {
	for {
		a, err := receiveHello(l.socket(own))
		if errors.Is(err, net.ErrClosed) {
			return
		}
		b, ok := l.segment.blockAt(a.from)
		if err == nil && ok && len(a.fds) == helloRights && a.instance != l.instance && a.holds(b) && l.admits(a.who) {
			a.fds = l.accept(a.hello, own, b, a.fds)
		}
		closeAll(a.fds)
	}
}

// hangUp closes the sockets that others call, which gives the ports back, and
// waits until nobody answers any more, but not for ever: a caller can send what
// takes as long as he likes to close, for instance a file of his own file
// system. The kernel closes it with the socket if it lies there unread, or
// answer does. By then the ports are free, unless the processors are so busy
// that the goroutines have not run: hence the long time, which only such a
// caller makes last.
func (l *Link) hangUp() {
	var sockets sync.WaitGroup
	for _, conn := range l.sockets {
		sockets.Go(func() { conn.Close() })
	}
	over := make(chan struct{})
	go func() {
		sockets.Wait()
		l.answers.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(hangUpTime):
	}
}

// hangUpTime is how long hangUp waits at most.
const hangUpTime = 2 * time.Second

// accept makes a peer of a caller from block b, and returns what is left of
// fds. What cannot be believed is refused: the caller's stream ends.
func (l *Link) accept(h hello, own, b int, fds []int) []int {
	p := &peer{own: own, block: b, at: &l.places[own][b], caller: true}
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
		unix.Close(fds[0])
	}
	if err == nil {
		err = l.greet(p.conn)
	}
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

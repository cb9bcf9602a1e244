package shm

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

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

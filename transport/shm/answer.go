package shm

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// answerTime is how long an answer may take to be sent; it goes into an empty
// socket buffer.
const answerTime = 100 * time.Millisecond

// answer takes the calls that come to one block of the link's ports.
func (l *Link) answer(conn *net.UnixConn) {
	for {
		h, fds, from, err := receiveHello(conn)
		switch b, ok := l.segment.blockAt(from); {
		case errors.Is(err, net.ErrClosed):
			closeAll(fds)
			return
		case err != nil || !ok || len(fds) != helloRights || h.instance == l.instance:
			closeAll(fds) // nobody who may call us
		default:
			l.accept(h, b, fds)
		}
	}
}

// accept makes a peer of a caller from block b. What cannot be believed is
// refused: the caller's stream ends.
func (l *Link) accept(h hello, b int, fds []int) {
	conn, err := stream(fds[0])
	if err != nil {
		closeAll(fds[1:])
		return
	}
	var m *memory
	if err = checkFile(fds[1], h.ring); err == nil {
		m, err = mapFile(fds[1], h.ring)
	}
	unix.Close(fds[1])
	if err != nil {
		conn.Close()
		unix.Close(fds[2])
		return
	}
	p := newPeer(m, false)
	p.instance, p.block, p.ports, p.conn, p.bell = h.instance, b, h.ports, conn, fds[2]
	_ = conn.SetWriteDeadline(time.Now().Add(answerTime))
	_, _, err = conn.WriteMsgUnix(l.hello().append(nil), unix.UnixRights(l.bell.ring), nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || !l.admit(p) {
		p.discard()
	}
}

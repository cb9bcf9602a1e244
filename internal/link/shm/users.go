package shm

import (
	"net"
	"os"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Who may share memory with the link. The kernel tells of every hello whose it is: a
// process can give no other user than its own.

// admits reports whether a process of that user may share memory with the link, and
// counts it if not. The kernel tells nothing of who has not been asked to say: nil.
func (l *Link) admits(who *unix.Ucred) bool {
	if l.anyUser || who != nil && (who.Uid == 0 || int(who.Uid) == os.Geteuid()) {
		return true
	}
	l.mu.Lock()
	l.stats.Refused++
	l.mu.Unlock()
	return false
}

// ourselves is the control message with which a hello says whose it is. It is needed
// where the user that counts is not the real one.
func ourselves() []byte {
	return unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())})
}

// askWho has a socket get that message with all that it receives.
func askWho(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }

// control does something with the descriptor of conn.
func control(conn *net.UnixConn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}

var _ transport.Checker = (*Link)(nil)

// The two ends of a ring can lose each other without a word that cannot be: a
// reader that has been told a wrong length waits for ever behind what the writer
// has written, or before it. No frame tells, because the ends share no index. So
// each notes at leisure how far it is, and looks whether what the other has noted
// can be.

// Check implements transport.Checker: it looks at the rings, of which each side
// should do so a few times a second. What it finds broken Recv gives up. There is
// no interface that could change; the error is ErrClosed or nil.
func (l *Link) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return transport.ErrClosed
	}
	files := l.anyUser && l.segment.hasFiles()
	for _, p := range *l.peers.Load() {
		if files && l.displaced(p) {
			p.failure = ErrGone
			l.events.Store(true)
			l.notify()
		}
		if p.conn != nil && p.failure == nil && (p.out.check() == broken || p.in.check() == broken) {
			l.fail(p)
		}
	}
	return nil
}

// displaced reports whether a peer of another user has its block by an abstract name only, and root has
// given the block to another process since then. mu is held.
func (l *Link) displaced(p *peer) bool {
	name := l.segment.name(p.block)
	return p.conn != nil && p.failure == nil && p.private != nil && p.to == name.Abstract && name.Alive()
}

// check notes what has been written, and looks whether that has been taken and
// freed which has been written.
func (w *writer) check() result {
	w.written.Store(w.next)
	if w.taken.Load() > w.next {
		return broken
	}
	return w.refresh()
}

// check notes what has been taken, and looks whether there is something to take
// if more has been written.
func (r *reader) check() result {
	r.taken.Store(r.next.Load())
	if r.written.Load() > r.next.Load() && !r.ready() {
		return broken
	}
	return done
}

package shm

import (
	"net"
	"os"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Access control by user. The kernel reports the user of every hello's sender, which a process
// cannot forge.

// admits reports whether a process with these credentials may share memory with the link. If not,
// it counts the refusal. who is nil if the kernel has not reported them.
func (l *Link) admits(who *unix.Ucred) bool {
	if l.anyUser || who != nil && (who.Uid == 0 || int(who.Uid) == os.Geteuid()) {
		return true
	}
	l.mu.Lock()
	l.stats.Refused++
	l.mu.Unlock()
	return false
}

// ourselves returns the control message with this process's credentials. It is needed where the
// effective user is not the real one.
func ourselves() []byte {
	return unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())})
}

// askWho makes a socket receive that message with all others.
func askWho(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }

// control calls do with the descriptor of conn.
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

// The two ends of a ring can lose each other without an impossible value: a reader that has read a
// wrong length waits forever behind or ahead of the writer. No frame reveals that, because the ends
// share no index. So each side records its position from time to time, and checks whether that of
// the other is possible.

// Check implements transport.Checker: it checks the rings. Each side should call it a few times a
// second. Recv removes the peers whose rings are broken. There is no interface that could change;
// the error is ErrClosed or nil.
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

// displaced reports whether a peer of another user has its block only by an abstract name, and root
// has since given the block to another process. The caller must hold mu.
func (l *Link) displaced(p *peer) bool {
	name := l.segment.name(p.block)
	return p.conn != nil && p.failure == nil && p.private != nil && p.to == name.Abstract && name.Alive()
}

// check records what has been written, and checks that only that has been taken and freed.
func (w *writer) check() result {
	w.written.Store(w.next)
	if w.taken.Load() > w.next {
		return broken
	}
	return w.refresh()
}

// check records what has been taken, and checks that a record is there if more has been written.
func (r *reader) check() result {
	r.taken.Store(r.next.Load())
	if r.written.Load() > r.next.Load() && !r.ready() {
		return broken
	}
	return done
}

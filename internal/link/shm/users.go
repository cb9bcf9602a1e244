package shm

import (
	"net"
	"os"

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

package passfd

import (
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	closersOfUser = 2    // maximum number of goroutines that close descriptors of one user
	mostOfUser    = 1024 // maximum number of descriptors of one user that wait to be closed; further ones are refused
)

// job is a set of descriptors, or a connection, to close.
type job struct {
	fds  []int
	conn io.Closer // or nil
	done func()    // or nil
}

// user is the state of a user whose descriptors are being closed.
type user struct {
	jobs    []job
	held    int // number of descriptors and connections that are not closed yet
	workers int
}

// closer closes descriptors and connections that other processes have passed.
type closer struct {
	mu    sync.Mutex
	users map[uint32]*user // users with descriptors that are not closed yet, by user ID
	over  int              // number of users that have reached the limit
	most  int              // the limit of each user
}

var closing = closer{users: map[uint32]*user{}, most: limit()}

// limit returns mostOfUser, or less if this process may have only few descriptors.
func limit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return mostOfUser
	}
	return int(min(mostOfUser, max(Most, r.Cur/4)))
}

// Close closes descriptors that a process of user uid has passed. It does not wait until they are
// closed. It disables SO_LINGER of sockets among them, also for other processes that hold these
// sockets.
func Close(uid uint32, fds ...int) {
	if len(fds) > 0 {
		closing.queueJob(uid, len(fds), job{fds: fds})
	}
}

// CloseConn closes a connection with a process of user uid, whose queue may hold descriptors. The
// peer sees the end at once, and goroutines that wait on the connection wake. The close itself
// happens later; then CloseConn calls done, if it is not nil. A caller that limits the connections
// of a user counts a connection until done is called.
func CloseConn(uid uint32, conn *net.UnixConn, done func()) {
	HangUp(conn)
	closing.queueJob(uid, 1, job{conn: conn, done: done})
}

// Refuse closes a connection beyond a limit. It takes at most two milliseconds.
func Refuse(conn *net.UnixConn) {
	HangUp(conn)
	Promptly(func() { conn.Close() })
}

// HangUp shuts down a connection without closing it, and wakes the goroutines that wait on it.
func HangUp(conn *net.UnixConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// OnHangUp calls ended when the peer ends a connection or HangUp shuts it down, even if earlier
// data have not been read. When stop returns, ended is not running and will not be called any more.
// The caller must call stop before it closes the connection.
func OnHangUp(conn *net.UnixConn, ended func()) (stop func(), err error) {
	own, err := dup(conn) // a separate descriptor: this goroutine and the connection's readers do not block each other
	if err != nil {
		return nil, err
	}
	raw, err := own.SyscallConn()
	if err != nil {
		own.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if raw.Read(hungUp) == nil {
			ended()
		}
	}()
	return func() {
		own.Close()
		<-done
	}, nil
}

// hungUp reports whether the peer has ended a connection.
func hungUp(fd uintptr) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	_, err := unix.Poll(look, 0)
	return err == nil && look[0].Revents != 0
}

// dup returns another descriptor of a connection. Goroutines that wait on it do not block those
// that wait on conn.
func dup(conn *net.UnixConn) (*os.File, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	if failed := raw.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(own), "connection"), nil
}

// CloseListener closes a listener. Its queue may hold connections that were not accepted, with
// descriptors that their processes have sent. It takes at most two milliseconds.
func CloseListener(l *net.UnixListener) error {
	last := -1 // keeps the socket open when l is closed, so that no goroutine in Accept does the last close
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				last = own
			}
		})
	}
	err := l.Close()
	if last >= 0 {
		Promptly(func() { unix.Close(last) })
	}
	return err
}

func (c *closer) queueJob(uid uint32, n int, j job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[uid]
	if u == nil {
		u = new(user)
		c.users[uid] = u
	}
	u.jobs = append(u.jobs, j)
	c.count(u, n)
	if u.workers < closersOfUser {
		u.workers++
		go c.work(uid, u)
	}
}

// count adds n to the number that a user holds. The caller must hold c.mu.
func (c *closer) count(u *user, n int) {
	was := u.held >= c.most
	u.held += n
	switch is := u.held >= c.most; {
	case is && !was:
		c.over++
	case was && !is:
		c.over--
	}
}

// full reports whether a user has reached the limit.
func (c *closer) full(uid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[uid]
	return u != nil && u.held >= c.most
}

// anyFull reports whether any user has reached the limit.
func (c *closer) anyFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over > 0
}

// work runs the jobs of a user until there are none.
func (c *closer) work(uid uint32, u *user) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(u.jobs) > 0 {
		j := u.jobs[0]
		u.jobs = u.jobs[1:]
		c.mu.Unlock()
		n := j.do()
		c.mu.Lock()
		c.count(u, -n)
	}
	if u.workers--; u.workers == 0 {
		delete(c.users, uid)
	}
}

// do closes the job's descriptors and connection, and returns their number.
func (j *job) do() int {
	n := len(j.fds)
	for _, fd := range j.fds {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
		Promptly(func() { closeFD(fd) })
	}
	if j.conn != nil {
		n++
		Promptly(func() { j.conn.Close() })
	}
	if j.done != nil {
		j.done()
	}
	return n
}

// closeFD closes a descriptor. It is a variable so that tests can simulate a close that never
// returns.
var closeFD = func(fd int) { _ = unix.Close(fd) }

package passfd

import (
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	closersOfUser = 2    // goroutines that close for one user
	mostOfUser    = 1024 // descriptors of one user that wait for that; he passes no more then
)

// job is what is closed together.
type job struct {
	fds  []int
	conn io.Closer // or nil
	done func()    // or nil
}

// user is one whose descriptors are being closed.
type user struct {
	jobs    []job
	held    int // descriptors and connections in jobs and at work
	workers int
}

// closer closes what came from other processes.
type closer struct {
	mu    sync.Mutex
	users map[uint32]*user // those with something to close
	over  int              // how many of them have as much as they may
	most  int              // of a user
}

var closing = closer{users: map[uint32]*user{}, most: limit()}

// limit returns mostOfUser, or less where this process may not have many descriptors.
func limit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return mostOfUser
	}
	return int(min(mostOfUser, max(Most, r.Cur/4)))
}

// Close closes descriptors that a process of user uid has passed. It does not wait for that.
// SO_LINGER is switched off in sockets among them, also for others who have them.
func Close(uid uint32, fds ...int) {
	if len(fds) > 0 {
		closing.add(uid, len(fds), job{fds: fds})
	}
}

// CloseConn closes a connection with a process of user uid, in whose queue there may be descriptors.
// The other side sees the end at once, and goroutines that wait in the connection are woken. The
// rest is done later, and then done is called, if it is not nil. So the caller bounds the
// connections of a user until they are done.
func CloseConn(uid uint32, conn *net.UnixConn, done func()) {
	HangUp(conn)
	closing.add(uid, 1, job{conn: conn, done: done})
}

// Refuse closes a connection that is one too many. It takes two milliseconds at most.
func Refuse(conn *net.UnixConn) {
	HangUp(conn)
	Promptly(func() { conn.Close() })
}

// HangUp ends a connection without closing it, and wakes the goroutines that wait in it.
func HangUp(conn *net.UnixConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// OnHangUp calls ended when the other side of a connection ends it, or HangUp does, also while nobody reads what
// was sent before. stop ends that; ended is then not running and is not called any more. stop must be called
// before the connection is closed.
func OnHangUp(conn *net.UnixConn, ended func()) (stop func(), err error) {
	own, err := dup(conn) // so that goroutines that read the connection do not wait for this one
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

// hungUp reports whether the other side has ended a connection.
func hungUp(fd uintptr) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	_, err := unix.Poll(look, 0)
	return err == nil && look[0].Revents != 0
}

// dup returns another descriptor of a connection, at which goroutines wait by themselves.
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

// CloseListener closes a listener at which processes may have connected, and have sent descriptors, that
// nobody has accepted. It takes two milliseconds at most.
func CloseListener(l *net.UnixListener) error {
	last := -1 // has the socket when l is closed, so that no goroutine that accepts ends it
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

func (c *closer) add(uid uint32, n int, j job) {
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

// count adds to what a user has. c.mu is held.
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

// full reports whether a user has as much as he may.
func (c *closer) full(uid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[uid]
	return u != nil && u.held >= c.most
}

// anyFull reports whether any user has.
func (c *closer) anyFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over > 0
}

// work does jobs of a user until there are none.
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

// do closes what the job has, and returns how much that is.
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

// closeFD closes a descriptor. A variable for tests of files whose close takes for ever.
var closeFD = func(fd int) { _ = unix.Close(fd) }

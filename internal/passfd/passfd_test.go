package passfd

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lingertest"
	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// pair returns a connected pair of sockets of a type.
func pair(t *testing.T, typ int) (mine *net.UnixConn, theirs int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "mine")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UnixConn), fds[1]
}

func send(t *testing.T, to int, control []byte) {
	t.Helper()
	if err := unix.Sendmsg(to, []byte("x"), control, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// in fails the test if f takes for ever, as far as a test can tell.
func in(t *testing.T, what string, f func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		f()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// TestLingering: sockets that linger for an hour hold up nobody: passed, in the queue of a socket
// that is passed, and unread in that of a connection.
func TestLingering(t *testing.T) {
	uid := uint32(os.Getuid())
	mine, theirs := pair(t, unix.SOCK_STREAM)
	plain, hidden, unread := lingertest.Socket(t), lingertest.Hidden(t), lingertest.Socket(t)
	send(t, theirs, unix.UnixRights(plain, hidden))
	m, err := Receive(mine, uid, make([]byte, 8))
	if err != nil || len(m.FDs) != 2 || m.N != 1 {
		t.Fatalf("received %+v, %v", m, err)
	}
	send(t, theirs, unix.UnixRights(unread))
	in(t, "the closing of the test's own sockets", func() {
		for _, fd := range []int{plain, hidden, unread} {
			unix.Close(fd) // not the last of any
		}
	})
	done := make(chan struct{})
	in(t, "Close", func() { Close(uid, m.FDs...) })
	in(t, "CloseConn", func() { CloseConn(uid, mine, func() { close(done) }) })
	in(t, "the work behind them", func() {
		<-done
		for closing.holds(uid) > 0 {
			runtime.Gosched()
		}
	})
	unix.Close(theirs)
}

// holds returns how much of a user's is being closed.
func (c *closer) holds(uid uint32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.users[uid]; u != nil {
		return u.held
	}
	return 0
}

// TestTruncated: the kernel closes descriptors for which a receiver has no number, and what
// lingers there ends, too.
func TestTruncated(t *testing.T) {
	mine, theirs := pair(t, unix.SOCK_DGRAM)
	fd := lingertest.Socket(t)
	send(t, theirs, unix.UnixRights(fd))
	unix.Close(fd)
	in(t, "a receive call without room", func() {
		m, err := wait(mine, func(fd int) (Message, error) { return receive(fd, make([]byte, 8), 0, 0) })
		if err != nil || len(m.FDs) > 0 {
			t.Errorf("received %+v, %v", m, err)
		}
	})
	unix.Close(theirs)
}

// TestBusy: a user whose files take for ever to close passes no more than some, and others go on.
func TestBusy(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to send messages as other users")
	}
	release := make(chan struct{})
	closeFD = func(fd int) {
		<-release
		unix.Close(fd)
	}
	const wild, honest = 1234, 1235
	defer func() {
		close(release)
		for closing.holds(wild)+closing.holds(honest) > 0 {
			runtime.Gosched()
		}
		closeFD = func(fd int) { _ = unix.Close(fd) }
	}()
	mine, theirs := pair(t, unix.SOCK_DGRAM)
	defer unix.Close(theirs)
	raw, err := mine.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err != nil {
		t.Fatal(err)
	}
	from := func(uid uint32, files int) Message {
		t.Helper()
		fds := make([]int, files) // standard input, so many times
		send(t, theirs, append(unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uid}), unix.UnixRights(fds...)...))
		m, err := ReceiveAny(mine, make([]byte, 8))
		if err != nil || m.N != 1 || m.Who == nil || m.Who.Uid != uid {
			t.Fatalf("received %+v, %v", m, err)
		}
		return m
	}
	for closing.holds(wild) < closing.most {
		Close(wild, from(wild, Most).FDs...)
	}
	if m := from(wild, 3); len(m.FDs) != 0 {
		t.Errorf("%d descriptors of a user were let in who has %d that cannot be closed", len(m.FDs), closing.holds(wild))
	}
	m := from(honest, 3)
	if len(m.FDs) != 3 {
		t.Errorf("%d descriptors of another user were let in, want 3", len(m.FDs))
	}
	Close(honest, m.FDs...)
	if _, err := Receive(mine, wild, make([]byte, 8)); !errors.Is(err, ErrBusy) {
		t.Errorf("a connection of that user: %v, want %v", err, ErrBusy)
	}
	if n := closing.holds(wild); n > closing.most+Most {
		t.Errorf("%d descriptors of one user are held", n)
	}
}

// TestConn: a Conn gives the bytes that come with descriptors, and neither Read nor Close waits for
// these. Its done is called when everything is closed.
func TestConn(t *testing.T) {
	mine, theirs := pair(t, unix.SOCK_STREAM)
	defer unix.Close(theirs)
	for range 2 { // the second one is not read
		fd := lingertest.Socket(t)
		send(t, theirs, unix.UnixRights(fd))
		Promptly(func() { unix.Close(fd) })
	}
	done := make(chan struct{})
	c := NewConn(mine, uint32(os.Geteuid()), func() { close(done) })
	b := make([]byte, 9)
	in(t, "Read", func() {
		if n, err := c.Read(b); err != nil || string(b[:n]) != "x" {
			t.Errorf("read %q, %v", b[:n], err)
		}
	})
	in(t, "Close", func() {
		c.Close()
		c.Close()
		<-done
	})
	if _, err := c.Read(b); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

// TestDropWhileBusy: nor does Drop while too many descriptors are still being closed.
func TestDropWhileBusy(t *testing.T) {
	release := make(chan struct{})
	closeFD = func(fd int) {
		<-release
		unix.Close(fd)
	}
	defer func() {
		close(release)
		for closing.holds(Unknown) > 0 {
			runtime.Gosched()
		}
		closeFD = func(fd int) { _ = unix.Close(fd) }
	}()
	for closing.holds(Unknown) < closing.most {
		fd, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		Close(Unknown, fd)
	}
	mine, theirs := pair(t, unix.SOCK_DGRAM)
	defer unix.Close(theirs)
	fd := lingertest.Socket(t)
	send(t, theirs, unix.UnixRights(fd))
	Promptly(func() { unix.Close(fd) })
	raw, err := mine.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	in(t, "Drop", func() {
		raw.Control(func(fd uintptr) {
			if !Drop(int(fd)) || Drop(int(fd)) {
				t.Error("not one message was there")
			}
		})
	})
}

// TestCloseListener: nor does the close of a listener wait for descriptors on connections that nobody has
// accepted.
func TestCloseListener(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fd := lingertest.Socket(t)
		if _, _, err := conn.WriteMsgUnix([]byte("x"), unix.UnixRights(fd), nil); err != nil {
			t.Fatal(err)
		}
		Promptly(func() { unix.Close(fd) })
	}
	in(t, "CloseListener", func() {
		if err := CloseListener(l); err != nil {
			t.Error(err)
		}
	})
	if err := CloseListener(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestOnHangUp: the end of a connection is heard, though what came before is not read, and not before it, nor after
// stop.
func TestOnHangUp(t *testing.T) {
	for how, end := range map[string]func(mine *net.UnixConn, theirs int){
		"close": func(_ *net.UnixConn, theirs int) { unix.Close(theirs) },
		"shut":  func(_ *net.UnixConn, theirs int) { unix.Shutdown(theirs, unix.SHUT_WR) },
		"here":  func(mine *net.UnixConn, _ int) { HangUp(mine) },
	} {
		mine, theirs := pair(t, unix.SOCK_STREAM)
		ended := make(chan bool)
		stop, err := OnHangUp(mine, func() { close(ended) })
		if err != nil {
			t.Fatal(err)
		}
		send(t, theirs, nil)
		var b [1]byte
		if n, err := mine.Read(b[:]); n != 1 || err != nil {
			t.Fatalf("%s: %d bytes, %v", how, n, err)
		}
		send(t, theirs, nil)
		select {
		case <-ended:
			t.Errorf("%s: the end is heard before it", how)
		default:
		}
		end(mine, theirs)
		in(t, how, func() { <-ended })
		in(t, "stop", stop)
	}
	mine, theirs := pair(t, unix.SOCK_STREAM)
	stop, err := OnHangUp(mine, func() { t.Error("the end is heard after stop") })
	if err != nil {
		t.Fatal(err)
	}
	in(t, "stop", stop)
	unix.Close(theirs)
}

package share

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLine: messages arrive as they were sent, each with its own descriptors, also when they are read
// together; and what no Line sends is refused.
func TestLine(t *testing.T) {
	type message struct {
		N    int
		Text string
	}
	ends := pair(t)
	from, to := NewLine(ends[0], uint32(os.Getuid())), NewLine(ends[1], uint32(os.Getuid()))
	const count = 40
	for n := range count {
		var fds []int
		for range n % 3 {
			fd, err := unix.Eventfd(uint(n), unix.EFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		from.Send(message{n, strings.Repeat("x", n*n)}, fds...)
	}
	for n := range count {
		var m message
		fds, err := to.Receive(&m)
		if err != nil || m.N != n || len(m.Text) != n*n || len(fds) != n%3 {
			t.Fatalf("message %d: %d, %d bytes of text, %d descriptors, %v", n, m.N, len(m.Text), len(fds), err)
		}
		for _, fd := range fds {
			var b [8]byte
			if unix.Read(fd, b[:]); int(b[0]) != n {
				t.Errorf("message %d has the descriptor of %d", n, b[0])
			}
			unix.Close(fd)
		}
	}
	from.Finish(time.Minute)
	if _, err := to.Receive(new(message)); err == nil {
		t.Error("a message after the end")
	}
	to.Finish(0)
	for _, wild := range []string{"\n", "{}\n", "1{}\n", "0{\n", "0[]\n", strings.Repeat("0", maxLine+4096)} {
		ends := pair(t)
		l := NewLine(ends[1], 0)
		go ends[0].Write([]byte(wild))
		if _, err := l.Receive(new(message)); err == nil {
			t.Errorf("%.10q is a message", wild)
		}
		l.Finish(0)
	}
}

// TestLineBacklog: descriptors that the other side has not taken count, and no more when it has.
func TestLineBacklog(t *testing.T) {
	ends := pair(t)
	l := &Line{conn: ends[0], stirred: make(chan struct{}, 1), done: make(chan struct{})} // it does not write yet
	const count = 20
	for range count {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		l.Send(1, fd)
	}
	if n := l.Backlog(); n < count*maxLine {
		t.Errorf("%d descriptors wait: backlog %d bytes, want %d at least", count, n, count*maxLine)
	}
	go l.write()
	l.Finish(time.Minute)
	if n := l.Backlog(); n != 0 {
		t.Errorf("backlog %d bytes after all is written", n)
	}
}

// pair returns the ends of a connection.
func pair(t *testing.T) (ends [2]*net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends
}

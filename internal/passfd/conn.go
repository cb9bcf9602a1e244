package passfd

import (
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conn is a connection from a process that may pass descriptors, to a server that wants none. Read
// gives them to Close, and Close does not wait for what the process has passed. All other methods
// are the connection's own. Goroutines may share it.
type Conn struct {
	*net.UnixConn
	uid  uint32
	raw  syscall.RawConn
	done func()
	once sync.Once

	broken error // why there is no raw

	reading sync.Mutex
	control []byte // room for all descriptors
	message message
	b       []byte // of the Read under way
	n       int
	err     error
	look    func(fd uintptr) bool // c.receive, made once
}

// NewConn returns conn, of a process of user uid. done is called when it is closed, for which Close
// does not wait.
func NewConn(conn *net.UnixConn, uid uint32, done func()) *Conn {
	c := &Conn{UnixConn: conn, uid: uid, done: done, control: make([]byte, controlSize)}
	c.look = c.receive
	if c.raw, c.broken = conn.SyscallConn(); c.broken == nil {
		_ = c.raw.Control(func(fd uintptr) { RefuseRights(int(fd)) })
	}
	return c
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 || c.broken != nil {
		return 0, c.broken
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.b = b
	err := c.raw.Read(c.look)
	c.b = nil
	switch {
	case err != nil:
		return 0, err
	case c.err != nil:
		return 0, c.err
	case c.n == 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// receive reads once. It reports whether something has come.
func (c *Conn) receive(fd uintptr) bool {
	if closing.full(c.uid) {
		c.n, c.err = 0, fmt.Errorf("user %d: %w", c.uid, ErrBusy)
		return true
	}
	k := 0
	if c.n, k, c.err = c.message.receive(int(fd), c.b, c.control); k > 0 {
		var m Message
		m.parse(c.control[:k])
		Close(c.uid, m.FDs...)
	}
	return c.err != unix.EAGAIN
}

// Close implements net.Conn. The peer sees the end at once.
func (c *Conn) Close() error {
	c.once.Do(func() { CloseConn(c.uid, c.UnixConn, c.done) })
	return nil
}

package passfd

import (
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conn is a connection of a server that wants no descriptors, from a process that may pass some.
// Read closes the descriptors that arrive, and does not wait for it. Neither does the method Close.
// All other methods are those of the connection. Goroutines may share it.
type Conn struct {
	*net.UnixConn
	uid  uint32
	raw  syscall.RawConn
	done func()
	once sync.Once

	broken error // why raw is not available

	reading sync.Mutex
	control []byte // buffer with room for all descriptors of a message
	message message
	b       []byte // buffer of the Read in progress
	n       int
	err     error
	look    func(fd uintptr) bool // c.receive, made once
}

// NewConn returns a Conn for conn, a connection from a process of user uid. It calls done when the
// connection is closed, which may be after Close has returned.
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

// receive tries to read once. It returns false if no data has arrived.
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

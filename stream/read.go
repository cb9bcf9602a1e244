package stream

import (
	"io"
	"net"
	"os"
)

// Read reads what has come, at least one byte unless p is empty. It blocks until there is
// something, the stream ends (io.EOF, when all before has been read), the read deadline
// has passed, or the stream is closed (net.ErrClosed). All errors but io.EOF are a
// *net.OpError.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.lock()
	n, err := c.read(p)
	c.rx.writes, c.rx.last = c.stats.Writes, n
	c.leave()
	c.unlock()
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// bulk is how many bytes a Read returns at least of a stream of long messages.
const bulk = 16 << 10

// read yields before it waits if nothing was written since the last Read, and that was short:
// what it has read is then likely to have been handed to another goroutine, as a client of HTTP
// does. Who reads and writes in turn has none, and who reads much at a time seldom.
func (c *Conn) read(p []byte) (int, error) {
	yields := c.rx.writes == c.stats.Writes && c.rx.last < bulk
	for {
		if err := c.mayRead(); err != nil {
			return 0, err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if c.rx.Unread() > 0 {
			return c.copyOut(p), nil
		}
		switch {
		case c.rx.Ended():
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		}
		if err := c.await(background, c.readLimit, yields); err != nil {
			return 0, err
		}
	}
}

// mayRead says why a read fails whatever has come.
func (c *Conn) mayRead() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.readLimit != 0 && c.nic.Now() >= c.readLimit:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// copyOut moves what is to be read to p, as much as fits, and tells the other end of the
// room if that is due.
func (c *Conn) copyOut(p []byte) (n int) {
	for n < len(p) {
		at, run := c.rx.Readable()
		k := copy(p[n:], c.rx.ring[at:at+run])
		if k == 0 {
			break
		}
		c.rx.Consumed(uint32(k))
		n += k
	}
	c.stats.Reads++
	c.stats.BytesRead += uint64(n)
	if c.rx.Due() {
		c.pump()
	}
	return n
}

package stream

import (
	"io"
	"net"
	"os"
)

// Read reads received bytes, at least one unless p is empty. It blocks until there are bytes. It
// returns io.EOF if the stream has ended and all bytes before the end have been read. It fails if
// the read deadline has passed or the stream is closed (net.ErrClosed). All errors except io.EOF
// are a *net.OpError.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.lock()
	n, err := c.read(p)
	c.rx.writes, c.rx.recent = c.stats.Writes, max(n, c.rx.recent/2)
	c.leave()
	c.unlock()
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// bulk is the size in bytes from which the results of the last Reads indicate a bulk reader.
const bulk = 16 << 10

// read yields before it waits if nothing was written since the last Read, and the last Reads were short.
// The program has then probably passed the data to another goroutine, as an HTTP client does.
// Request/response code has no such goroutine, and bulk readers rarely do.
func (c *Conn) read(p []byte) (int, error) {
	yields := c.rx.writes == c.stats.Writes && c.rx.recent < bulk
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

// mayRead returns the error of a read that fails whatever has arrived.
func (c *Conn) mayRead() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.readLimit != 0 && c.nic.Now() >= c.readLimit:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// copyOut moves unread bytes to p, as many as fit, and sends credit if it is due.
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

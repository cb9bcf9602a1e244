package stream

import (
	"io"
	"time"
)

// Peek returns what has come where it lies, in two parts if it lies at the end and at the
// beginning of the ring: at least n bytes, for which it waits as Read does, at most
// Config.ReadBuffer. If the stream ends before, the error is io.EOF when nothing is left, and
// else io.ErrUnexpectedEOF; other errors are a *net.OpError.
//
// Without an error the parts are the caller's until Discard, which has to be called, and other
// Reads wait for it. They are memory that the other end writes to: a peer that breaks the rules
// can change what lies there, so what is to be checked is copied before.
func (c *Conn) Peek(n int) (first, rest []byte, err error) {
	c.reading.Lock()
	c.lock()
	defer c.unlock()
	if err = c.awaitUnread(n); err != nil {
		c.leave()
		c.reading.Unlock()
		return nil, nil, err
	}
	at, run := c.rx.Readable()
	first, rest = c.rx.ring[at:at+run], c.rx.ring[:c.rx.Unread()-uint64(run)]
	c.holds++
	c.leave()
	return first, rest, nil
}

// awaitUnread waits until n bytes have come.
func (c *Conn) awaitUnread(n int) error {
	for {
		if err := c.mayRead(); err != nil {
			return c.opError("read", err)
		}
		unread := c.rx.Unread()
		switch {
		case n > len(c.rx.ring):
			return c.opError("read", io.ErrShortBuffer)
		case unread >= uint64(max(n, 1)):
			return nil
		case c.rx.Ended() && unread == 0:
			return io.EOF
		case c.rx.Ended():
			return io.ErrUnexpectedEOF
		case c.err != nil:
			return c.opError("read", c.err)
		}
		if err := c.wait(background, c.readLimit); err != nil {
			return c.opError("read", err)
		}
	}
}

// Discard takes the first n bytes of what Peek has returned as read.
func (c *Conn) Discard(n int) {
	c.lock()
	c.holds--
	c.rx.Consumed(uint32(n))
	c.stats.Reads++
	c.stats.BytesRead += uint64(n)
	if c.rx.Due() {
		c.pump()
	}
	c.leave()
	c.release()
	c.unlock()
	c.reading.Unlock()
}

// TryWrite writes p as Write does if that is possible without waiting, and reports whether it
// has: not if others are writing, if the write buffer has no room for all of it, or if Write
// would fail. Nothing of p has been taken then.
func (c *Conn) TryWrite(p []byte) bool {
	if !c.writing.TryLock() {
		return false
	}
	defer c.writing.Unlock()
	c.lock()
	defer c.unlock()
	defer c.leave()
	if !c.hasRoom(len(p)) {
		return false
	}
	c.stage(p)
	c.stats.Writes++
	c.stats.BytesWritten += uint64(len(p))
	return true
}

// hasRoom reports whether the write buffer has room for n bytes.
func (c *Conn) hasRoom(n int) bool {
	if c.mayWrite() == nil && c.tx.stage.Room() < n {
		c.poll()
	}
	return c.mayWrite() == nil && c.tx.stage.Room() >= n
}

// Reserve returns n bytes in a row of the write buffer, where what is to be written can be put
// in place of a Write that copies it. It waits for room for as long as it is told to, and returns
// nil where TryWrite would not write then, or where the buffer ends before. What it has returned
// is the caller's until Commit, which has to be called soon: other Writes wait for it.
func (c *Conn) Reserve(n int, wait time.Duration) []byte {
	if !c.writing.TryLock() {
		return nil
	}
	c.lock()
	defer c.unlock()
	has := c.hasRoom(n)
	if !has && wait > 0 {
		for limit := c.nic.Now() + int64(wait); !has && c.mayWrite() == nil && c.wait(background, limit) == nil; {
			has = c.hasRoom(n)
		}
	}
	if has {
		if at, run := c.tx.stage.Free(); run >= n {
			c.holds++
			return c.tx.buf[at : at+n : at+n]
		}
	}
	c.leave()
	c.writing.Unlock()
	return nil
}

// Commit writes the first n of the bytes that Reserve has returned; with 0, none. Errors are as
// Write's.
func (c *Conn) Commit(n int) (err error) {
	c.lock()
	c.holds--
	if n > 0 {
		if err = c.mayWrite(); err == nil {
			c.tx.stage.Wrote(n)
			c.stats.Writes++
			c.stats.BytesWritten += uint64(n)
			c.staged()
		} else {
			err = c.opError("write", err)
		}
	}
	c.release()
	c.leave()
	c.unlock()
	c.writing.Unlock()
	return err
}

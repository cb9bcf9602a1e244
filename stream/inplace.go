package stream

import (
	"io"
	"time"
)

// Peek returns unread bytes without copying them, in two parts if they wrap around the end of the
// ring. It waits for at least n bytes, as Read does, and returns at most Config.ReadBuffer. If the
// stream ends first, the error is io.EOF if nothing is left, and io.ErrUnexpectedEOF otherwise.
// Other errors are a *net.OpError.
//
// After a Peek without error the caller owns the parts until it calls Discard, which it must do.
// Other Reads wait for it. The other end can write to this memory, and a peer that violates the
// protocol can change it at any time. Copy bytes before you validate them.
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

// awaitUnread waits until n bytes have arrived.
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

// Discard marks the first n bytes of the last Peek as read.
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

// TryWrite writes p like Write, but only if it need not wait, and reports whether it did. It does
// not write while another goroutine writes, if the write buffer has no room for all of p, or if
// Write would fail. It never writes a part of p.
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

// Reserve returns n contiguous bytes of the write buffer, which the caller fills in place of a
// Write that copies. It waits for room for at most wait. It returns nil if TryWrite would not write
// then, or if the buffer ends before n bytes. The caller owns the bytes until it calls Commit,
// which it must do soon, because other Writes wait for it.
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

// Commit writes the first n of the bytes that Reserve has returned; with n = 0 it writes nothing.
// Errors are those of Write.
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

package stream

import (
	"net"
	"os"
	"syscall"
)

// CloseWrite ends the data of this end: the other end reads io.EOF after all written data.
// This end can still read.
func (c *Conn) CloseWrite() error {
	c.lock()
	defer c.unlock()
	switch {
	case c.closed:
		return c.opError("close", net.ErrClosed)
	case c.err != nil:
		return c.opError("close", c.err)
	case c.tx.ending:
		return c.opError("close", syscall.EPIPE)
	}
	c.tx.ending = true
	c.pump()
	c.leave()
	return nil
}

// Close closes the stream. Blocked calls return net.ErrClosed. Written data are still sent,
// followed by the end of the stream, and Close waits for the acknowledgement. If the other end has
// no room, a goroutine sends the rest. Both take at most Config.Linger. A second Close returns
// net.ErrClosed.
func (c *Conn) Close() error {
	c.lock()
	if c.closed {
		c.unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed, c.tx.ending = true, true
	c.pump()
	c.unlock()
	c.cq.Wake()
	limit := c.nic.Now() + int64(c.host.cfg.Linger)
	if !c.host.virtual && !c.linger(limit, false) {
		go c.linger(limit, true) // Host.Close waits for it
		return nil
	}
	c.linger(limit, true)
	return nil
}

// Abort closes the stream without waiting. Data in flight may be lost, and the other end reads a
// syscall.ECONNRESET. Blocked calls return net.ErrClosed, and so does an Abort after Close or
// Abort. Use it if the peer could delay Close by acknowledging nothing.
func (c *Conn) Abort() error {
	c.lock()
	if c.closed {
		c.unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.unlock()
	c.tear()
	return nil
}

// linger waits until limit for written data to be acknowledged, then releases all resources. If
// patient is false, it returns false and releases nothing as soon as the other end has no room.
func (c *Conn) linger(limit int64, patient bool) bool {
	c.lock()
	for !c.arrived() && !c.torn {
		if !patient && !c.tx.Ended() {
			c.unlock()
			return false
		}
		if c.wait(background, limit) == os.ErrDeadlineExceeded {
			c.stats.Abandoned++
			break
		}
	}
	c.unlock()
	c.tear()
	return true
}

// arrived reports whether everything is sent and acknowledged, or can no longer be.
func (c *Conn) arrived() bool {
	return c.err != nil || !c.greeted || c.tx.Ended() && c.tx.busy == 0
}

// tear releases what newConn has allocated. It leaves memory in use to release.
func (c *Conn) tear() {
	c.lock()
	defer c.unlock()
	if c.torn {
		return
	}
	c.torn, c.closed = true, true
	if c.vi != nil {
		c.vi.Close()
	}
	if c.cq != nil {
		c.cq.Close()
	}
	c.tx.direct = 0
	c.host.forget(c)
	c.release()
}

// release frees the memory if the connection is torn and no goroutine uses it.
func (c *Conn) release() {
	if !c.torn || c.holds > 0 {
		return
	}
	if c.rx.handle != 0 {
		c.nic.DeregisterMem(c.rx.handle)
	}
	if c.tx.handle != 0 {
		c.nic.DeregisterMem(c.tx.handle)
	}
	if c.tx.tag != 0 {
		c.nic.DestroyPtag(c.tx.tag)
	}
	c.rx.ring, c.tx.buf, c.tx.greeting = nil, nil, nil
	c.rx.handle, c.tx.handle, c.tx.tag = 0, 0, 0
}

package stream

import (
	"net"
	"os"
	"syscall"
)

// CloseWrite ends what this end sends: the other one reads io.EOF behind what has been
// written. Reading goes on. The end follows the data in its turn.
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

// Close closes the stream. Calls that block return net.ErrClosed. What has been written
// still goes to the other end, followed by its end: Close waits for the acknowledgement,
// or, if the other end has no room, leaves that to a goroutine; both for Config.Linger at
// the most. A second Close returns net.ErrClosed.
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

// Abort closes the stream without waiting for anything: what is under way may be lost, and the
// other end reads a syscall.ECONNRESET. Calls that block return net.ErrClosed, as does an Abort
// behind Close or Abort. It is for a peer to whom nothing is owed, and who could hold up a Close
// by acknowledging nothing.
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

// linger sees to it until limit that what was written arrives, and then gives everything
// back. Without patience it returns false, and gives nothing back, as soon as the
// other end has no room.
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

// arrived reports whether nothing is left to be sent or acknowledged, or nothing can be.
func (c *Conn) arrived() bool {
	return c.err != nil || !c.greeted || c.tx.Ended() && c.tx.busy == 0
}

// tear gives back what newConn has taken, except what somebody uses, who calls release.
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

// release gives the memory back if the connection is torn and nobody uses it.
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

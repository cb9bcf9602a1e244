package stream

import (
	"net"
	"time"
)

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.setLimits(t, true, true) }

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded, including a
// Read that is already blocked; zero means never. Over a link in virtual time the remaining time
// counts on the link's clock.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setLimits(t, true, false) }

// SetWriteDeadline is like SetReadDeadline, but for Write. A Write that sends directly from its
// argument returns after those bytes have been acknowledged, at most five seconds later. If they
// are not acknowledged by then, the stream ends.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setLimits(t, false, true) }

func (c *Conn) setLimits(t time.Time, read, write bool) error {
	var limit int64
	if !t.IsZero() {
		limit = max(c.nic.Now()+int64(time.Until(t)), 1)
	}
	c.lock()
	if c.closed {
		c.unlock()
		return c.opError("set", net.ErrClosed)
	}
	if read {
		c.readLimit = limit
	}
	if write {
		c.writeLimit = limit
	}
	cq := c.cq
	c.unlock()
	cq.Wake()
	return nil
}

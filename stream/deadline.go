package stream

import (
	"net"
	"time"
)

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.setLimits(t, true, true) }

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded, also
// one that blocks already; zero means never. Over a link in virtual time the time that is
// left counts, on that clock.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setLimits(t, true, false) }

// SetWriteDeadline does so for Write. One whose memory is under way returns when that has
// been acknowledged, which takes five seconds more at the most; if it then is not, the
// stream is ended.
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

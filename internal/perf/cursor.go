package perf

// cursor walks through messages in a few buffers, fragment by fragment.
type cursor struct {
	bufs [][]byte
	buf  int // the message's buffer
	off  int // what lies behind
}

func newCursor(size int) cursor {
	c := cursor{bufs: make([][]byte, outstanding(size))}
	for i := range c.bufs {
		c.bufs[i] = make([]byte, size)
		occupy(c.bufs[i])
	}
	return c
}

// occupy writes to all of b, because the kernel lets memory that nobody has
// written to share one page of zeros, which is read from the first cache as no
// program's data would be.
func occupy(b []byte) {
	for i := range b {
		b[i] = byte(i)
	}
}

// next returns up to n bytes of the current message. It does not move.
func (c *cursor) next(n int) []byte {
	rest := c.bufs[c.buf][c.off:]
	return rest[:min(n, len(rest))]
}

// advance moves on by n bytes, which next has returned, and reports whether
// they ended a message.
func (c *cursor) advance(n int) (whole bool) {
	c.off += n
	if c.off < len(c.bufs[c.buf]) {
		return false
	}
	c.off = 0
	if c.buf++; c.buf == len(c.bufs) {
		c.buf = 0
	}
	return true
}

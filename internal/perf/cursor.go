package perf

// cursor walks through messages in a few buffers, fragment by fragment.
type cursor struct {
	bufs [][]byte
	buf  int // the message's buffer
	off  int // offset of the next fragment in the current buffer
}

func newCursor(size int) cursor {
	c := cursor{bufs: make([][]byte, outstanding(size))}
	for i := range c.bufs {
		c.bufs[i] = make([]byte, size)
		occupy(c.bufs[i])
	}
	return c
}

// buffers returns buffers for a cursor. If there is a NIC, they lie in memory of the NIC, like those of
// the stack vipl, so that stacks above vipl are compared with it under equal conditions. The NIC frees
// them when it is closed.
func (b *base) buffers(size int) ([][]byte, error) {
	bufs := make([][]byte, outstanding(size))
	mem, err := b.memory(max(len(bufs)*size, 1))
	if err != nil {
		return nil, err
	}
	occupy(mem)
	for i := range bufs {
		bufs[i] = mem[i*size:][:size:size]
	}
	return bufs, nil
}

// occupy writes to all of b. The kernel lets memory that was never written share one page of zeros.
// Reads of that page would hit the first-level cache, unlike reads of a program's data.
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

// advance moves by n bytes, which next has returned, and reports whether they complete a message.
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

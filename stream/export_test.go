package stream

// MaxMessage is the length of the longest message.
const MaxMessage = maxMessage

// SetYield has streams of h call yield instead of runtime.Gosched.
func (h *Host) SetYield(yield func()) { h.yield = yield }

// Host returns the Host of c.
func (c *Conn) Host() *Host { return c.host }

// DefaultWriteBuffer is defaultWriteBuffer, for tests.
const DefaultWriteBuffer = defaultWriteBuffer

// TailSize is tailSize, for tests.
const TailSize = tailSize

// MaxBuffer is maxBuffer, for tests.
const MaxBuffer = maxBuffer

// MinBuffer is minBuffer, for tests.
const MinBuffer = minBuffer

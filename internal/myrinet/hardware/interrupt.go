package hardware

// interrupts tell the host that the card wants something of it.
type interrupts struct {
	c       *Card
	handler func(causes uint32)
	causes  uint32 // that the handler has not been told
	at      int64  // when it is
	raise   func()
}

func (q *interrupts) init(c *Card) {
	q.c = c
	q.raise = q.onRaise
}

// onRaise is the event of an interrupt. One that comes before its time is of a program
// that was replaced.
func (q *interrupts) onRaise() {
	causes := q.causes
	if causes == 0 || q.c.world != nil && q.c.world.Now() < q.at {
		return
	}
	q.reset()
	if q.handler != nil {
		q.c.stats.Interrupts++
		q.handler(causes)
	}
}

// reset forgets what the handler has not been told.
func (q *interrupts) reset() { q.causes, q.at = 0, 0 }

// OnInterrupt sets the host's handler. It gets the causes of all interrupts since it was
// called last, a bit each. It runs where the card does, which is within a step of the
// program if the card has no timing model, and must not wait.
func (c *Card) OnInterrupt(handler func(causes uint32)) { c.irq.handler = handler }

// Interrupt has the host's handler called, after Timing.Interrupt. Causes that come
// before it is called share the call.
func (c *Card) Interrupt(causes uint32) {
	q := &c.irq
	pending := q.causes != 0
	q.causes |= causes
	if !pending && causes != 0 {
		q.at = c.Now() + c.timing.interrupt()
		c.beginAt(q.at, q.raise)
	}
}

package hardware

// interrupts is the interrupt line from the card to the host.
type interrupts struct {
	c       *Card
	handler func(causes uint32)
	causes  uint32 // not yet delivered to the handler
	at      int64  // time of the delivery
	raise   func()
}

func (q *interrupts) init(c *Card) {
	q.c = c
	q.raise = q.onRaise
}

// onRaise handles the event of an interrupt. An event before its time belongs to a program that was
// replaced.
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

// reset drops undelivered causes.
func (q *interrupts) reset() { q.causes, q.at = 0, 0 }

// OnInterrupt sets the host's handler. Its argument has a bit for each cause since the last call.
// The handler runs in the card's context, within a step of the program if the card has no timing
// model, and must not block.
func (c *Card) OnInterrupt(handler func(causes uint32)) { c.irq.handler = handler }

// Interrupt calls the host's handler after Timing.Interrupt. Causes that are added before the call
// share it.
func (c *Card) Interrupt(causes uint32) {
	q := &c.irq
	pending := q.causes != 0
	q.causes |= causes
	if !pending && causes != 0 {
		q.at = c.Now() + c.timing.interrupt()
		c.beginAt(q.at, q.raise)
	}
}

package hardware

// Program is the control program of a card; it runs on the card's processor. The program implements
// the protocol; the card only moves bytes.
//
// A program never waits. Step does the pending work and returns. It is called again after an event
// that may give it work (a packet has arrived, a transfer between host and SRAM is done, a packet
// has been sent, a doorbell was rung), or at the time that it has returned.
//
// In virtual time, events of the world call it, and a Step lasts as long as the cycles that it
// charges (Card.Work), at least 1 ns. Live, the goroutine that polls or waits on the card's link
// calls it through Card.Poll.
type Program interface {
	// Load is called once, before the first Step. The program allocates its memory in Card.SRAM and
	// posts its first receive buffers. On an error the card stays empty.
	Load(c *Card) error

	// Step does the pending work. next is the time in nanoseconds at which it wants to be called if
	// no event occurs before, or transport.Forever.
	Step(now int64) (next int64)
}

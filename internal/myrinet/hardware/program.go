package hardware

// Program is the control program of a card, which runs on the card's processor. It
// answers for the protocol; the card only moves octets.
//
// A program never waits. Step does what there is to do and returns. It is called again
// when something has happened that may give it work: a packet has come, a transfer
// between host and SRAM or a packet that was sent is done, a doorbell was rung; or when
// the time comes that it has named.
//
// In virtual time, events of the world call it, and a Step takes as long as the cycles
// that it says it needs (Card.Work), 1 ns at least. Live, whoever polls or waits on the
// card's link calls it, by Card.Poll.
type Program interface {
	// Load is called once, before the first Step: the program takes its memory from
	// Card.SRAM and posts its first receive buffers. Its error keeps the card empty.
	Load(c *Card) error

	// Step does what there is to do. next is when it wants to be called if nothing
	// happens before, in nanoseconds, transport.Forever for never.
	Step(now int64) (next int64)
}

package lanai

// Costs is what the program's steps take of the card's processor, in cycles. They count in
// virtual time only.
type Costs struct {
	Pick    int // to find a request in the send queues, for each process that has one
	Short   int // to check and translate a short request, and make its header
	Word    int // more, for each word of 32 bits of its data, which the processor copies
	Long    int // to take up a long request: check, translate the first page
	Chunk   int // of each chunk: translate, make the header while the one before is under way
	Leave   int // more, for a chunk behind the first that is not sent in the tight loop, because something else has happened
	Launch  int // to start a packet on its way
	Receive int // to check a packet that has come, and start its transfer
	Answer  int // to handle an answer of a channel
}

// DefaultCosts are those of the card of VMMC, 33 MHz. What the paper's section 6 says to
// begin a send in software, "at least twice as long" as 2 to 3 us, is Pick, Short and
// Launch: 4 us. A word is a load and a store, of two cycles each.
func DefaultCosts() Costs {
	return Costs{Pick: 20, Short: 102, Word: 4, Long: 102, Chunk: 30, Leave: 200, Launch: 10, Receive: 60, Answer: 30}
}

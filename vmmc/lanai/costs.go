package lanai

// Costs are the costs of the control program's steps, in cycles of the card's processor. They count
// in virtual time only.
type Costs struct {
	Pick    int // to find a request in the send queues, for each process with a queue
	Short   int // to check and translate a short request, and build its header
	Word    int // added for each 32-bit word of a short request's data, which the processor copies
	Long    int // to start a long request: check it and translate its first page
	Chunk   int // for each chunk: translate it, and build its header while the previous chunk is being sent
	Leave   int // added for a chunk after the first that other events delayed out of the tight loop
	Launch  int // to start sending a packet
	Receive int // to check a received packet, and start its transfer to the host
	Answer  int // to handle an answer on a channel
}

// DefaultCosts returns the costs of VMMC's card, at 33 MHz. Pick, Short and Launch together take 4
// us: in the paper's section 6, starting a send in software takes "at least twice as long" as 2 to
// 3 us. A word is a load and a store of two cycles each.
func DefaultCosts() Costs {
	return Costs{Pick: 20, Short: 102, Word: 4, Long: 102, Chunk: 30, Leave: 200, Launch: 10, Receive: 60, Answer: 30}
}

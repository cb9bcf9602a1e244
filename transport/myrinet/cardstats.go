package myrinet

// CardStats counts what a card has done.
type CardStats struct {
	Steps, Cycles         uint64 // of the control program
	PacketsOut, OctetsOut uint64 // sent, with route and CRC-8
	PacketsIn, OctetsIn   uint64 // received intact, with type and CRC-8

	Truncated uint64 // dropped: broken on its way
	TooLong   uint64 // dropped: longer than the buffer posted for it
	CRCErrors uint64 // dropped: the CRC-8 does not match
	Misrouted uint64 // dropped: it had route left, which no card can use
	Reloaded  uint64 // dropped: the program that had a buffer for it was replaced while it came
	Refused   uint64 // not sent: longer than the link takes

	NoBuffer            uint64 // times that a packet found no buffer posted, and waited
	DMAs, DMAOctets     uint64 // transfers between host and SRAM
	Doorbells           uint64
	Interrupts          uint64 // that the host's handler was called for
	HostNanos           uint64 // of the host's time, for access to the card
	SRAMUsed, SRAMTotal int    // octets
}

// Dropped is the sum of the counters of packets that have come in and were dropped.
func (s *CardStats) Dropped() uint64 {
	return s.Truncated + s.TooLong + s.CRCErrors + s.Misrouted + s.Reloaded
}

// Stats returns a snapshot of the counters.
func (c *Card) Stats() CardStats {
	s := c.stats
	s.SRAMUsed, s.SRAMTotal = c.sram.Used(), c.sram.Size()
	return s
}

// CardSnapshot is what a card is like at a moment.
type CardSnapshot struct {
	Name         string
	Loaded       bool       // it has a program
	Memory       []BlockUse // by where it lies
	Pages        int        // doorbell pages that are open
	Posted       int        // receive buffers that wait for packets
	Filled       int        // packets that the program has not taken
	Blocked      bool       // a packet waits for a buffer
	Sending      bool       // the send engine is busy
	Transferring bool       // the DMA engine is busy
	Stats        CardStats
}

// BlockUse says what a piece of a card's memory is for. Offset and Size are octets.
type BlockUse struct {
	Purpose      string
	Offset, Size int
}

// Snapshot returns what the card is like now.
func (c *Card) Snapshot() CardSnapshot {
	s := CardSnapshot{
		Name: c.name, Loaded: c.prog != nil, Pages: len(c.pages.open),
		Posted: c.in.posted.Len(), Filled: c.in.filled.Len(), Blocked: c.in.blocked,
		Sending: c.out.busy, Transferring: c.dma.busy, Stats: c.Stats(),
	}
	for _, b := range c.sram.blocks {
		s.Memory = append(s.Memory, BlockUse{b.Purpose, b.Offset, b.size})
	}
	return s
}

package hardware

// CardStats holds the counters of a card.
type CardStats struct {
	Steps, Cycles uint64 // of the control program
	PacketsOut    uint64 `metric:"bobnet_card_transmit_packets_total" help:"Packets sent."`
	BytesOut      uint64 `metric:"bobnet_card_transmit_bytes_total" help:"Bytes of packets sent, including route and CRC-8."`
	PacketsIn     uint64 `metric:"bobnet_card_receive_packets_total" help:"Intact packets received."`
	BytesIn       uint64 `metric:"bobnet_card_receive_bytes_total" help:"Bytes of intact packets received, including type and CRC-8."`

	Truncated uint64 `metric:"bobnet_card_dropped_packets_total" reason:"truncated" help:"received truncated"`
	TooLong   uint64 `metric:"bobnet_card_dropped_packets_total" reason:"too_long" help:"received, longer than the buffer"`
	CRCErrors uint64 `metric:"bobnet_card_dropped_packets_total" reason:"crc" help:"received with a wrong CRC-8"`
	Misrouted uint64 `metric:"bobnet_card_dropped_packets_total" reason:"misrouted" help:"received with an unused rest of the route"`
	Reloaded  uint64 `metric:"bobnet_card_dropped_packets_total" reason:"reloaded" help:"received while the control program was being replaced"`
	Refused   uint64 `metric:"bobnet_card_dropped_packets_total" reason:"refused" help:"not sent: longer than the cable allows"`

	NoBuffer   uint64 `metric:"bobnet_card_blocked_packets_total" help:"Received packets that had to wait for a buffer."`
	DMAs       uint64 `metric:"bobnet_card_transfers_total" help:"Transfers between the memories of host and card."`
	DMABytes   uint64 `metric:"bobnet_card_transfer_bytes_total" help:"Bytes in these transfers."`
	Doorbells  uint64 `metric:"bobnet_card_doorbells_total" help:"Doorbells rung by the host."`
	Interrupts uint64 `metric:"bobnet_card_interrupts_total" help:"Interrupts of the host by the card."`
	HostNanos  uint64 // time that the host has spent accessing the card
	SRAMUsed   int    `metric:"bobnet_card_sram_used_bytes" help:"Memory of the card in use."`
	SRAMTotal  int    `metric:"bobnet_card_sram_bytes" help:"Memory of the card."`
}

// Dropped returns the number of received packets that were dropped.
func (s *CardStats) Dropped() uint64 {
	return s.Truncated + s.TooLong + s.CRCErrors + s.Misrouted + s.Reloaded
}

// Stats returns a snapshot of the counters.
func (c *Card) Stats() CardStats {
	s := c.stats
	s.SRAMUsed, s.SRAMTotal = c.sram.Used(), c.sram.Size()
	return s
}

// CardSnapshot is the state of a card at one moment.
type CardSnapshot struct {
	Name         string
	Loaded       bool       // the card has a program
	Memory       []BlockUse // in the order of addresses
	Pages        int        // open doorbell pages
	Posted       int        // empty receive buffers
	Filled       int        // received packets that the program has not taken
	Blocked      bool       // a packet waits for a buffer
	Sending      bool       // the send engine is busy
	Transferring bool       // the DMA engine is busy
	Stats        CardStats
}

// BlockUse describes a block of a card's memory. Offset and Size are in bytes.
type BlockUse struct {
	Purpose      string
	Offset, Size int
}

// Snapshot returns the current state of the card.
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

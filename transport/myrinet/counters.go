package myrinet

// PortStats counts what a port of a switch or of a card has seen. Each packet that was
// not passed on is in exactly one of the drop counters of the port that it had come in
// by; those that a card sends into a dead cable are in the card's own.
type PortStats struct {
	PacketsIn  uint64 `metric:"bobnet_switch_receive_packets_total" help:"Packets that came in by the port."`
	OctetsIn   uint64 `metric:"bobnet_switch_receive_bytes_total" help:"Their bytes, with route and CRC-8."`
	PacketsOut uint64 `metric:"bobnet_switch_transmit_packets_total" help:"Packets that left by the port."`
	OctetsOut  uint64 `metric:"bobnet_switch_transmit_bytes_total" help:"Their bytes, with what is left of the route, and CRC-8."`

	Blocked      uint64 `metric:"bobnet_switch_blocked_packets_total" help:"Packets that came in and had to wait."`
	BlockedNanos uint64 `metric:"bobnet_switch_blocked_seconds_total" help:"How long packets that came in have waited."`

	Truncated uint64 `metric:"bobnet_switch_truncated_packets_total" help:"Packets that were cut short here."`
	CRCErrors uint64 `metric:"bobnet_switch_crc_errors_total" help:"Packets that came in with a wrong CRC-8, and were passed on."`

	TimedOut uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: still blocked when there was nothing left to cut
	NoRoute  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the route has ended before a card
	BadTurn  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the route leads to a port that the switch has not
	NoCable  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: nothing is plugged in there, or the link or what it leads to is down
	Lost     uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the link or switch that it was in failed
}

// Dropped is the sum of the drop counters.
func (s *PortStats) Dropped() uint64 {
	return s.TimedOut + s.NoRoute + s.BadTurn + s.NoCable + s.Lost
}

// Stats counts what a fabric has seen. Each packet that was sent has been delivered,
// whole or truncated, is in one drop counter of a port, or is under way:
//
//	Sent = Delivered + DeliveredTruncated + Ports.Dropped() + UnderWay
type Stats struct {
	Sent               uint64 // packets that cards have sent
	Delivered          uint64 // whole, though perhaps with a wrong CRC-8
	DeliveredTruncated uint64
	UnderWay           uint64
	Hops               uint64    // links that heads of packets have passed
	BitErrors          uint64    // packets that a link has changed a bit of
	Ports              PortStats // sum over all ports
}

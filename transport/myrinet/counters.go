package myrinet

// PortStats are the counters of a port of a switch or of a card. Each packet that was not passed on
// is in exactly one of the drop counters of the port at which it arrived. Packets that a card sends
// into a cable that is down are in the card's own counters.
type PortStats struct {
	PacketsIn  uint64 `metric:"bobnet_switch_receive_packets_total" help:"Packets received at the port."`
	BytesIn    uint64 `metric:"bobnet_switch_receive_bytes_total" help:"Bytes of packets received at the port, including route and CRC-8."`
	PacketsOut uint64 `metric:"bobnet_switch_transmit_packets_total" help:"Packets sent from the port."`
	BytesOut   uint64 `metric:"bobnet_switch_transmit_bytes_total" help:"Bytes of packets sent from the port, including the rest of the route and CRC-8."`

	Blocked      uint64 `metric:"bobnet_switch_blocked_packets_total" help:"Received packets that had to wait."`
	BlockedNanos uint64 `metric:"bobnet_switch_blocked_seconds_total" help:"Total waiting time of received packets."`

	Truncated uint64 `metric:"bobnet_switch_truncated_packets_total" help:"Packets truncated at the port."`
	CRCErrors uint64 `metric:"bobnet_switch_crc_errors_total" help:"Packets received with a wrong CRC-8 and forwarded."`

	TimedOut uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: still blocked when nothing was left to truncate
	NoRoute  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the route ended before a card
	BadTurn  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the route leads to a port that the switch does not have
	NoCable  uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: no cable at the port, or the link or its other end is down
	Lost     uint64 `metric:"bobnet_switch_dropped_packets_total"` // dropped: the link or switch that it was in failed
}

// Dropped returns the sum of the drop counters.
func (s *PortStats) Dropped() uint64 {
	return s.TimedOut + s.NoRoute + s.BadTurn + s.NoCable + s.Lost
}

// Stats are the counters of a fabric. Each sent packet has been delivered, complete or truncated,
// is in one drop counter of a port, or is in flight:
//
//	Sent = Delivered + DeliveredTruncated + Ports.Dropped() + UnderWay
type Stats struct {
	Sent               uint64 // packets that cards have sent
	Delivered          uint64 // packets delivered complete, perhaps with a wrong CRC-8
	DeliveredTruncated uint64
	UnderWay           uint64
	Hops               uint64    // links that the heads of packets have passed
	BitErrors          uint64    // packets with a bit flipped by a link
	Ports              PortStats // sum over all ports
}

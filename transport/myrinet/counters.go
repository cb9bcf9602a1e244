package myrinet

// PortStats counts what a port of a switch or of a card has seen. Each packet that was
// not passed on is in exactly one of the drop counters of the port that it had come in
// by; those that a card sends into a dead cable are in the card's own.
type PortStats struct {
	PacketsIn, OctetsIn   uint64 // that have come in by the port, with route and CRC-8
	PacketsOut, OctetsOut uint64 // that have left by it

	Blocked      uint64 // packets that came in and had to wait for their output, or for the card
	BlockedNanos uint64 // how long they waited, nanoseconds

	Truncated uint64 // packets cut short here: blocked too long, or a link or switch failed under them
	CRCErrors uint64 // packets that came in with a wrong CRC-8, and were passed on

	TimedOut uint64 // dropped: still blocked when there was nothing left to cut
	NoRoute  uint64 // dropped: the route has ended before a card
	BadTurn  uint64 // dropped: the route leads to a port that the switch has not
	NoCable  uint64 // dropped: nothing is plugged in there, or the link or what it leads to is down
	Lost     uint64 // dropped: the link or switch that it was in failed
}

func (s *PortStats) add(t *PortStats) {
	s.PacketsIn += t.PacketsIn
	s.OctetsIn += t.OctetsIn
	s.PacketsOut += t.PacketsOut
	s.OctetsOut += t.OctetsOut
	s.Blocked += t.Blocked
	s.BlockedNanos += t.BlockedNanos
	s.Truncated += t.Truncated
	s.CRCErrors += t.CRCErrors
	s.TimedOut += t.TimedOut
	s.NoRoute += t.NoRoute
	s.BadTurn += t.BadTurn
	s.NoCable += t.NoCable
	s.Lost += t.Lost
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

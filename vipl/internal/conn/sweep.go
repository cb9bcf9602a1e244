package conn

const (
	// sweepAgain is how soon the next sweep comes, in nanoseconds, if one has not asked for all.
	sweepAgain = 20_000_000

	sweepShare = 4   // of a ring: what asks, twice, and as much that begins connections
	sweepLeast = 4   // connections
	sweepSlots = 256 // of rings that do not tell theirs
)

// sweepBudget bounds how many connections of a NIC probe silent peers in one sweep. It is pure.
//
// Without a bound, thousands of connections that fell silent together would probe in the same
// sweep and overflow the peer's receive ring. They would then probe again, and in the end declare
// a live peer dead. So a sweep probes for as many connections as fill a part of a ring, in the
// order of their ports. The next sweep follows soon and continues behind them.
type sweepBudget struct {
	left  int    // that may ask still
	from  uint16 // the port of the first that may
	short bool   // not all have asked
}

// Begin begins a sweep. The peers' rings hold as many frames as this NIC's; 0 if that is not
// known.
func (s *sweepBudget) Begin(ring int) {
	if ring == 0 {
		ring = sweepSlots
	}
	s.left, s.short = max(ring/sweepShare, sweepLeast), s.from > 0
}

// Allow reports whether the connection at a port, which wants to, may ask in this sweep.
func (s *sweepBudget) Allow(port uint16) bool {
	switch {
	case port < s.from: // it had its chance in the last sweep, or is the first to have one in the next
		return false
	case s.left > 0:
		s.left--
		return true
	case s.left == 0: // the next sweep goes on here
		s.left, s.short, s.from = -1, true, port
	}
	return false
}

// End ends a sweep, and reports whether another one is to come soon.
func (s *sweepBudget) End() bool {
	if s.left >= 0 {
		s.from = 0
	}
	return s.short
}

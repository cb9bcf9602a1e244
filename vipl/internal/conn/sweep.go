package conn

const (
	// sweepAgain is the time before the next sweep, in nanoseconds, if a sweep has not probed all
	// connections.
	sweepAgain = 20_000_000

	sweepShare = 4   // probes may fill 1/4 of a ring; each probe counts as two frames, to leave room for its answer and for new connections
	sweepLeast = 4   // minimum number of connections that a sweep probes
	sweepSlots = 256 // assumed size of a ring that is unknown
)

// sweepBudget bounds how many connections of a NIC probe silent peers in one sweep. It is pure.
//
// Without a bound, thousands of connections that fell silent together would probe in the same
// sweep and overflow the peer's receive ring. They would then probe again, and in the end declare
// a live peer dead. So a sweep probes for as many connections as fill a part of a ring, in the
// order of their ports. The next sweep follows soon and continues behind them.
type sweepBudget struct {
	left  int    // connections that may still probe
	from  uint16 // the port of the first one that may
	short bool   // some have not probed
}

// Begin begins a sweep. The peers' rings are assumed to hold as many frames as this NIC's ring; 0
// if unknown.
func (s *sweepBudget) Begin(ring int) {
	if ring == 0 {
		ring = sweepSlots
	}
	s.left, s.short = max(ring/sweepShare, sweepLeast), s.from > 0
}

// Allow reports whether the connection at a port may probe in this sweep.
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

// End ends a sweep, and reports whether another one must follow soon.
func (s *sweepBudget) End() bool {
	if s.left >= 0 {
		s.from = 0
	}
	return s.short
}

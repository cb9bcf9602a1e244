// Package sweep bounds how many connections of a NIC ask after their peers at a time. It is
// pure. Those that have fallen silent together would else all ask in one sweep, and when they
// are thousands overflow the peer's receive ring. Then they ask again, twice each, and in the
// end take a peer for dead that lives. So a sweep asks for as many as fill a part of a ring,
// and the next one, soon, goes on behind them.
package sweep

const (
	// Again is how soon the next sweep comes, in nanoseconds, if one has not asked for all.
	Again = 20_000_000

	share = 4   // of a ring: what asks, twice, and as much that begins connections
	least = 4   // connections
	slots = 256 // of rings that do not tell theirs
)

// Sweep is a sweep over the connections of a NIC, by their ports, and where the next one goes
// on.
type Sweep struct {
	left  int    // that may ask still
	from  uint16 // the port of the first that may
	short bool   // not all have asked
}

// Begin begins a sweep. The peers' rings hold as many frames as this NIC's; 0 if that is not
// known.
func (s *Sweep) Begin(ring int) {
	if ring == 0 {
		ring = slots
	}
	s.left, s.short = max(ring/share, least), s.from > 0
}

// Take reports whether the connection at a port, which wants to, may ask in this sweep.
func (s *Sweep) Take(port uint16) bool {
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
func (s *Sweep) End() bool {
	if s.left >= 0 {
		s.from = 0
	}
	return s.short
}

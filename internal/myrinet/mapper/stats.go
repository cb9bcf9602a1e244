package mapper

import "github.com/bobnet-go/bobnet/ethertype"

// Stats counts what an Agent has done and seen. Each message that has come and was not
// used is in one of the drop counters.
type Stats struct {
	Maps      uint64 // mappings that have come to their end
	Changes   uint64 // of these, that differ from the one before
	Restarts  uint64 // mappings begun again, because what was found contradicts itself: the fabric changed meanwhile
	Doubts    uint64 // mappings made again, because something that was there before was missing
	Abandoned uint64 // mappings given up, for the same reason

	Probes    uint64 // sent, each try
	TimedOut  uint64 // probes and other requests that were not answered in time, each try
	Answers   uint64 // sent to mappers
	Elections uint64 // times that this host has become the leader
	Yields    uint64 // times that it has left that to a better one
	Installed uint64 // tables written to this host's card
	Cleared   uint64 // times that its card was told to use no routes

	Unreached uint64 // hosts that have not confirmed their routes
	Withdrawn uint64 // hosts told to use no routes, because old and new ones together could deadlock
	Twice     uint64 // identities that a mapping has found at several hosts, counted each time
	Claimed   uint64 // messages of another mapper that claims this host's identity
	TooMany   uint64 // hosts beyond MaxHosts, counted each time

	DropMalformed uint64 // dropped: no message of a mapper
	DropLate      uint64 // dropped: nothing waits for it, or its token is not this mapper's
	DropStray     uint64 // dropped: another mapper's probe, or for another host
	DropRefused   uint64 // dropped: orders of a mapper that this host does not follow
	DropInvalid   uint64 // dropped: parts of routes that do not fit together
	DropBusy      uint64 // dropped: too many answers wait to be sent
}

// Dropped is the sum of the drop counters.
func (s *Stats) Dropped() uint64 {
	return s.DropMalformed + s.DropLate + s.DropStray + s.DropRefused + s.DropInvalid + s.DropBusy
}

// Snapshot is what an Agent is, at one time.
type Snapshot struct {
	Stats
	Leading bool          // this host maps
	Leader  ethertype.MAC // whom it follows, itself while it leads; 0 for nobody
	Map     *Map          // the last one, of a leader or an observer
	Routes  int           // that its card has
}

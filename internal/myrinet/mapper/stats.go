package mapper

import "github.com/bobnet-go/bobnet/ethertype"

// Stats counts what an Agent has done and seen. Each message that has come and was not
// used is in one of the drop counters.
type Stats struct {
	Maps      uint64 `metric:"bobnet_mapper_maps_total" help:"Mappings made by this host."`
	Changes   uint64 `metric:"bobnet_mapper_changes_total" help:"Mappings by this host that differ from its previous one."`
	Restarts  uint64 // mappings begun again, because what was found contradicts itself: the fabric changed meanwhile
	Doubts    uint64 // mappings made again, because something that was there before was missing
	Kept      uint64 `metric:"bobnet_mapper_kept_total" help:"Mappings discarded because a host missing from them answered over its known route."`
	Abandoned uint64 `metric:"bobnet_mapper_abandoned_total" help:"Mappings abandoned because of contradictory results."`

	Probes    uint64 `metric:"bobnet_mapper_probes_total" help:"Probes sent, including retries."`
	TimedOut  uint64 `metric:"bobnet_mapper_timeouts_total" help:"Probes and orders without an answer in time, including retries."`
	Answers   uint64 `metric:"bobnet_mapper_answers_total" help:"Probes of other hosts answered."`
	Elections uint64 `metric:"bobnet_mapper_elections_total" help:"Times that this host became the leader."`
	Yields    uint64 // times that it has left that to a better one
	Installed uint64 `metric:"bobnet_mapper_installed_total" help:"Route tables received by this host."`
	Cleared   uint64 // times that its card was told to use no routes

	Unreached uint64 `metric:"bobnet_mapper_unreached_total" help:"Hosts that have not confirmed their routes."`
	Withdrawn uint64 // hosts told to use no routes, because old and new ones together could deadlock
	Twice     uint64 // identities that a mapping has found at several hosts, counted each time
	Claimed   uint64 // messages of another mapper that claims this host's identity
	TooMany   uint64 // hosts beyond MaxHosts, counted each time

	DropMalformed uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: no message of a mapper
	DropLate      uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: nothing waits for it, or its token is not this mapper's
	DropStray     uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: another mapper's probe, or for another host
	DropRefused   uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: orders of a mapper that this host does not follow
	DropInvalid   uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: parts of routes that do not fit together
	DropBusy      uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: too many answers wait to be sent
}

// Dropped is the sum of the drop counters.
func (s *Stats) Dropped() uint64 {
	return s.DropMalformed + s.DropLate + s.DropStray + s.DropRefused + s.DropInvalid + s.DropBusy
}

// Snapshot is what an Agent is, at one time.
type Snapshot struct {
	Stats
	Leading bool          `metric:"bobnet_mapper_leading" help:"1 if this host is the leader."`
	Leader  ethertype.MAC // whom it follows, itself while it leads; 0 for nobody
	Map     *Map          // the last one, of a leader or an observer
	Routes  int           `metric:"bobnet_mapper_routes" help:"Routes received from the leader."`
}

package mapper

import "github.com/bobnet-go/bobnet/ethertype"

// Stats holds the counters of an Agent. Each received message that was not used is in one of the
// drop counters.
type Stats struct {
	Maps      uint64 `metric:"bobnet_mapper_maps_total" help:"Mappings made by this host."`
	Changes   uint64 `metric:"bobnet_mapper_changes_total" help:"Mappings by this host that differ from its previous one."`
	Restarts  uint64 // mappings restarted because the results contradict each other: the fabric has changed
	Doubts    uint64 // mappings repeated because something is missing that was present before
	Kept      uint64 `metric:"bobnet_mapper_kept_total" help:"Mappings discarded because a host missing from them answered over its known route."`
	Abandoned uint64 `metric:"bobnet_mapper_abandoned_total" help:"Mappings abandoned because of contradictory results."`

	Probes    uint64 `metric:"bobnet_mapper_probes_total" help:"Probes sent, including retries."`
	TimedOut  uint64 `metric:"bobnet_mapper_timeouts_total" help:"Probes and orders without an answer in time, including retries."`
	Answers   uint64 `metric:"bobnet_mapper_answers_total" help:"Probes of other hosts answered."`
	Elections uint64 `metric:"bobnet_mapper_elections_total" help:"Times that this host became the leader."`
	Yields    uint64 // times that it yielded to a mapper with precedence
	Installed uint64 `metric:"bobnet_mapper_installed_total" help:"Route tables received by this host."`
	Cleared   uint64 // times that its card was told to use no routes

	Unreached uint64 `metric:"bobnet_mapper_unreached_total" help:"Hosts that have not confirmed their routes."`
	Withdrawn uint64 // hosts told to use no routes, because old and new ones together could deadlock
	Twice     uint64 // identities found at several hosts, counted in each mapping
	Claimed   uint64 // messages from another mapper that claims this host's identity
	TooMany   uint64 // hosts above MaxHosts, counted in each mapping

	DropMalformed uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: not a mapper's message
	DropLate      uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: no request waits for it, or wrong token
	DropStray     uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: another mapper's probe, or for another host
	DropRefused   uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: order from a mapper that this host does not follow
	DropInvalid   uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: parts of routes that do not match
	DropBusy      uint64 `metric:"bobnet_mapper_dropped_messages_total"` // dropped: too many answers wait to be sent
}

// Dropped returns the sum of the drop counters.
func (s *Stats) Dropped() uint64 {
	return s.DropMalformed + s.DropLate + s.DropStray + s.DropRefused + s.DropInvalid + s.DropBusy
}

// Snapshot is the state of an Agent at one moment.
type Snapshot struct {
	Stats
	Leading bool          `metric:"bobnet_mapper_leading" help:"1 if this host is the leader."`
	Leader  ethertype.MAC // the followed leader, itself while it leads; zero for none
	Map     *Map          // last map of a leader or observer
	Routes  int           `metric:"bobnet_mapper_routes" help:"Routes received from the leader."`
}

package metrics

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/prometheus/client_golang/prometheus"
)

// Card is what the Collector asks of a card of the emulated Myrinet that moves Ethernet
// frames; the links of driver myrinet have it.
type Card interface{ Snapshot() CardSnapshot }

// CardSnapshot is the state of such a card at a moment.
type CardSnapshot = plain.Snapshot

var cardLabels = []string{"card"}

var cardFields = []field[station.Snapshot]{
	{"bobnet_card_cable_up", "1 if the other end of the card's cable is there.", true, func(s *station.Snapshot) float64 {
		if s.Cable != nil && s.Cable.Up {
			return 1
		}
		return 0
	}},
	{"bobnet_card_transmit_packets_total", "Packets that left.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.PacketsOut) }},
	{"bobnet_card_transmit_bytes_total", "Their bytes, with route and CRC-8.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.OctetsOut) }},
	{"bobnet_card_receive_packets_total", "Packets that came intact.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.PacketsIn) }},
	{"bobnet_card_receive_bytes_total", "Their bytes, with type and CRC-8.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.OctetsIn) }},
	{"bobnet_card_blocked_packets_total", "Times that a packet which came found no buffer, and waited.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.NoBuffer) }},
	{"bobnet_card_blocked_seconds_total", "How long packets that came by the cable have waited.", false, func(s *station.Snapshot) float64 {
		if s.Cable == nil {
			return 0
		}
		return float64(s.Cable.Packets.BlockedNanos) / 1e9
	}},
	{"bobnet_card_sram_bytes", "Memory of the card.", true, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.SRAMTotal) }},
	{"bobnet_card_sram_used_bytes", "Memory of the card that is in use.", true, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.SRAMUsed) }},
	{"bobnet_card_stations", "Stations in the card's table of routes.", true, func(s *station.Snapshot) float64 { return float64(s.Stations) }},
	{"bobnet_card_long_routes_total", "Routes of the mapper's that are too long for the card's table.", false, func(s *station.Snapshot) float64 { return float64(s.LongRoutes) }},
	{"bobnet_card_doorbells_total", "Times that the host has rung.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.Doorbells) }},
	{"bobnet_card_interrupts_total", "Times that the card has interrupted the host.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.Interrupts) }},
	{"bobnet_card_transfers_total", "Transfers between the host's memory and the card's.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.DMAs) }},
	{"bobnet_card_transfer_bytes_total", "Bytes in these transfers.", false, func(s *station.Snapshot) float64 { return float64(s.Card.Stats.DMAOctets) }},
	{"bobnet_card_sessions_total", "Times that the card and the other end of its cable have found each other.", false, func(s *station.Snapshot) float64 {
		if s.Cable == nil {
			return 0
		}
		return float64(s.Cable.Frames.Sessions)
	}},
}

// plainFields are of cards whose program moves Ethernet frames.
var plainFields = []field[plain.Snapshot]{
	{"bobnet_card_bad_doorbells_total", "Numbers of the host's in its doorbell page that cannot be.", false, func(s *plain.Snapshot) float64 { return float64(s.BadDoorbells) }},
	{"bobnet_card_send_ring_frames", "Frames in the send ring.", true, func(s *plain.Snapshot) float64 { return float64(s.ToSend) }},
	{"bobnet_card_receive_ring_frames", "Frames in the receive ring.", true, func(s *plain.Snapshot) float64 { return float64(s.Received) }},
}

// cardDrops are the reasons why a card loses packets.
var cardDrops = []reason[station.Snapshot]{
	{"truncated", "came cut short", func(s *station.Snapshot) uint64 { return s.Card.Stats.Truncated }},
	{"too_long", "came, longer than the buffer", func(s *station.Snapshot) uint64 { return s.Card.Stats.TooLong }},
	{"crc", "came with a wrong CRC-8", func(s *station.Snapshot) uint64 { return s.Card.Stats.CRCErrors }},
	{"misrouted", "came with route left", func(s *station.Snapshot) uint64 { return s.Card.Stats.Misrouted }},
	{"reloaded", "came while the control program was replaced", func(s *station.Snapshot) uint64 { return s.Card.Stats.Reloaded }},
	{"refused", "not sent: longer than the cable takes", func(s *station.Snapshot) uint64 { return s.Card.Stats.Refused }},
	{"cable", "sent or come by a cable without another end, or whose session has ended, or blocked for too long", func(s *station.Snapshot) uint64 {
		if s.Cable == nil {
			return 0
		}
		return s.Cable.Packets.Dropped() + s.Cable.Frames.TooLong
	}},
}

var cardDropped = family{"bobnet_card_dropped_packets_total", "Packets that were lost at the card, by reason.", false, append(cardLabels[:1:1], "reason")}

// mapperFields are of a host's mapper.
var mapperFields = []field[mapper.Snapshot]{
	{"bobnet_mapper_leading", "1 if this host maps for all.", true, func(m *mapper.Snapshot) float64 {
		if m.Leading {
			return 1
		}
		return 0
	}},
	{"bobnet_mapper_routes", "Routes that the leader has given this host.", true, func(m *mapper.Snapshot) float64 { return float64(m.Routes) }},
	{"bobnet_mapper_maps_total", "Mappings that this host has made.", false, func(m *mapper.Snapshot) float64 { return float64(m.Maps) }},
	{"bobnet_mapper_changes_total", "Of its mappings, those that differ from the one before.", false, func(m *mapper.Snapshot) float64 { return float64(m.Changes) }},
	{"bobnet_mapper_abandoned_total", "Mappings given up because what was found contradicts itself.", false, func(m *mapper.Snapshot) float64 { return float64(m.Abandoned) }},
	{"bobnet_mapper_probes_total", "Probes sent, each try.", false, func(m *mapper.Snapshot) float64 { return float64(m.Probes) }},
	{"bobnet_mapper_timeouts_total", "Probes and orders that were not answered in time, each try.", false, func(m *mapper.Snapshot) float64 { return float64(m.TimedOut) }},
	{"bobnet_mapper_answers_total", "Probes of others that were answered.", false, func(m *mapper.Snapshot) float64 { return float64(m.Answers) }},
	{"bobnet_mapper_elections_total", "Times that this host has become the leader.", false, func(m *mapper.Snapshot) float64 { return float64(m.Elections) }},
	{"bobnet_mapper_installed_total", "Tables of routes that this host was given.", false, func(m *mapper.Snapshot) float64 { return float64(m.Installed) }},
	{"bobnet_mapper_unreached_total", "Hosts that have not confirmed their routes.", false, func(m *mapper.Snapshot) float64 { return float64(m.Unreached) }},
	{"bobnet_mapper_dropped_messages_total", "Messages of mappers that were not used.", false, func(m *mapper.Snapshot) float64 { return float64(m.Dropped()) }},
}

// mapFields are of the last map of a leader.
var mapFields = []field[mapper.Map]{
	{"bobnet_map_hosts", "Hosts on the last map.", true, func(m *mapper.Map) float64 { return float64(len(m.IDs)) }},
	{"bobnet_map_switches", "Switches on the last map.", true, func(m *mapper.Map) float64 { return float64(len(m.Topology.Switches)) }},
	{"bobnet_map_cables", "Cables on the last map.", true, func(m *mapper.Map) float64 { return float64(len(m.Topology.Cables)) }},
	{"bobnet_map_probes", "Probes that the last map took.", true, func(m *mapper.Map) float64 { return float64(m.Probes) }},
	{"bobnet_map_lost_probes", "Of these, probes that nothing came back for.", true, func(m *mapper.Map) float64 { return float64(m.Lost) }},
	{"bobnet_map_seconds", "How long the last map took.", true, func(m *mapper.Map) float64 { return m.Duration.Seconds() }},
}

// WatchCard adds a card of the emulated Myrinet to what is exported, with its cable and the
// host's mapper; call the result when it closes. WatchNIC does so for the card that a NIC is
// on.
func (c *Collector) WatchCard(card Card) (forget func()) { return c.cards.add(plainCard{card}) }

// watchCardOf is WatchCard for the card that a NIC is on, if it is on one.
func (c *Collector) watchCardOf(n NIC) (forget func()) {
	if on, ok := n.(interface{ Link() transport.Link }); ok {
		if card, ok := transport.As[Card](on.Link()); ok {
			return c.WatchCard(card)
		}
	}
	return func() {}
}

// anyCard is a card, whatever program it runs. All share one list, so that no two have the
// same label.
type anyCard interface {
	state() cardState
}

// cardState is a snapshot of a card, and a way to export what its program adds.
type cardState struct {
	station.Snapshot
	whole   any // the snapshot of the program's package
	program func(c *Collector, ch chan<- prometheus.Metric, card string)
}

// plainCard is one that moves Ethernet frames.
type plainCard struct{ Card }

func (p plainCard) state() cardState {
	s := p.Snapshot()
	return cardState{s.Snapshot, s, func(c *Collector, ch chan<- prometheus.Metric, card string) {
		emit(ch, c.plain, plainFields, &s, card)
	}}
}

func (c *Collector) collectCards(ch chan<- prometheus.Metric) {
	for _, x := range c.cards.list() {
		s := x.it.state()
		name := s.Card.Name + c.cards.distinct(x, s.Card.Name)
		emit(ch, c.card, cardFields, &s.Snapshot, name)
		count(ch, c.cardDropped, cardDrops, &s.Snapshot, name)
		s.program(c, ch, name)
		if s.Mapper == nil {
			continue
		}
		emit(ch, c.mapper, mapperFields, s.Mapper, name)
		if s.Mapper.Map != nil {
			emit(ch, c.maps, mapFields, s.Mapper.Map, name)
		}
	}
}

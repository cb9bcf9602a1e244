package metrics

import (
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/prometheus/client_golang/prometheus"
)

// EndpointCard is what the Collector asks of a card that holds endpoints of active messages;
// *lanai.Card of package endpoint/lanai has it.
type EndpointCard interface{ Snapshot() lanai.Snapshot }

var endpointCardFields = []field[lanai.Snapshot]{
	{"bobnet_amcard_endpoints", "Endpoints that programs have on the card, in frames or not.", true, func(s *lanai.Snapshot) float64 { return float64(s.Endpoints) }},
	{"bobnet_amcard_resident_endpoints", "Of these, endpoints in frames of the card.", true, func(s *lanai.Snapshot) float64 { return float64(s.Resident) }},
	{"bobnet_amcard_waiting_endpoints", "Endpoints that wait for a frame.", true, func(s *lanai.Snapshot) float64 { return float64(s.Waiting) }},
	{"bobnet_amcard_frames", "Frames for endpoints.", true, func(s *lanai.Snapshot) float64 { return float64(s.Frames) }},
	{"bobnet_amcard_programs", "Programs that have endpoints on the card.", true, func(s *lanai.Snapshot) float64 { return float64(s.Programs) }},
	{"bobnet_amcard_pinned_bytes", "Memory in staging areas that is pinned.", true, func(s *lanai.Snapshot) float64 { return float64(s.Pinned) }},
	{"bobnet_amcard_posted_messages", "Messages in send queues of endpoints that the card has not done with.", true, func(s *lanai.Snapshot) float64 { return float64(s.Posted) }},
	{"bobnet_amcard_queued_messages", "Messages that wait in the host for an entry of a send queue.", true, func(s *lanai.Snapshot) float64 { return float64(s.Queued) }},
	{"bobnet_amcard_queued_answers", "ACKs and NACKs that wait to be sent.", true, func(s *lanai.Snapshot) float64 { return float64(s.Answers) }},
	{"bobnet_amcard_faults_total", "Endpoints that were wanted in a frame and not there, and staging areas that were not pinned.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Faults) }},
	{"bobnet_amcard_loads_total", "Endpoints that were loaded into frames.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Loads) }},
	{"bobnet_amcard_evictions_total", "Endpoints that have left frames.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Unloads) }},
	{"bobnet_amcard_turns_total", "Turns of frames to send.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Turns) }},
	{"bobnet_amcard_sent_messages_total", "Packets of messages that were sent, again or not.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Sent) }},
	{"bobnet_amcard_retransmissions_total", "Packets of messages that were sent again.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Again) }},
	{"bobnet_amcard_delivered_messages_total", "Messages that were written into endpoints here.", false, func(s *lanai.Snapshot) float64 { return float64(s.Stats.Delivered) }},
	{"bobnet_amcard_duplicate_messages_total", "Messages that came again after they had been written, and were acknowledged again.", false, func(s *lanai.Snapshot) float64 { return float64(s.Receives.Duplicates) }},
}

// The reasons why a card refuses messages at first or for good, why messages come back from it
// to their senders, and why it drops something.
var (
	endpointCardNacks = []reason[lanai.Snapshot]{
		{"not_resident", "the endpoint is in no frame, or moves", func(s *lanai.Snapshot) uint64 { return s.Stats.Nacked[reliability.NackResident] }},
		{"overrun", "its receive queue is full", func(s *lanai.Snapshot) uint64 { return s.Stats.Nacked[reliability.NackOverrun] }},
		{"not_pinned", "its staging area is not pinned", func(s *lanai.Snapshot) uint64 { return s.Stats.Nacked[reliability.NackMemory] }},
		{"tag", "the message does not show its tag", func(s *lanai.Snapshot) uint64 { return s.Stats.Nacked[reliability.NackTag] }},
		{"no_endpoint", "there is no such endpoint", func(s *lanai.Snapshot) uint64 { return s.Stats.Nacked[reliability.NackNoEndpoint] }},
	}
	endpointCardReturns = []reason[lanai.Snapshot]{
		{"unanswered", "no card has answered", func(s *lanai.Snapshot) uint64 { return s.Stats.Returned }},
		{"refused", "the other card has refused them for good", func(s *lanai.Snapshot) uint64 { return s.Stats.Refused }},
		{"no_route", "there is no route to the other card", func(s *lanai.Snapshot) uint64 { return s.Stats.Unroutable }},
		{"bad_entry", "the program has posted what makes no sense", func(s *lanai.Snapshot) uint64 { return s.Stats.BadEntries }},
	}
	endpointCardDrops = []reason[lanai.Snapshot]{
		{"malformed", "packets that no card sends", func(s *lanai.Snapshot) uint64 { return s.Stats.Malformed }},
		{"misdelivered", "packets for another card", func(s *lanai.Snapshot) uint64 { return s.Stats.Misdelivered }},
		{"stranger", "packets from more cards than the table holds", func(s *lanai.Snapshot) uint64 { return s.Stats.Strangers }},
		{"no_route", "answers for which there is no route", func(s *lanai.Snapshot) uint64 { return s.Stats.NoRoute }},
		{"no_room", "messages, because as many answers wait to be sent as have room", func(s *lanai.Snapshot) uint64 { return s.Stats.Unanswered }},
		{"stale", "packets that something sent later had overtaken", func(s *lanai.Snapshot) uint64 { return s.Receives.Stale }},
		{"forged", "messages for a connection of somebody else", func(s *lanai.Snapshot) uint64 { return s.Stats.Forged }},
		{"privileged", "messages of programs that speak as a driver, or to one", func(s *lanai.Snapshot) uint64 { return s.Stats.Privileged }},
	}
)

var (
	endpointCardNacked   = family{"bobnet_amcard_nacks_total", "NACKs that the card has sent, by reason.", false, append(cardLabels[:1:1], "reason")}
	endpointCardReturned = family{"bobnet_amcard_returned_messages_total", "Messages that the card has given back to their senders, by reason.", false, append(cardLabels[:1:1], "reason")}
	endpointCardDropped  = family{"bobnet_amcard_dropped_total", "What the card, or its driver, has dropped, by reason.", false, append(cardLabels[:1:1], "reason")}
)

// WatchEndpointCard adds a card that holds endpoints to what is exported, with its cable and
// the host's mapper; call the result when it closes.
func (c *Collector) WatchEndpointCard(card EndpointCard) (forget func()) {
	return c.cards.add(endpointCard{card})
}

type endpointCard struct{ EndpointCard }

func (e endpointCard) state() cardState {
	s := e.Snapshot()
	return cardState{s.Snapshot, s, func(c *Collector, ch chan<- prometheus.Metric, card string) {
		emit(ch, c.endpointCard, endpointCardFields, &s, card)
		count(ch, c.endpointCardNacked, endpointCardNacks, &s, card)
		count(ch, c.endpointCardReturned, endpointCardReturns, &s, card)
		count(ch, c.endpointCardDropped, endpointCardDrops, &s, card)
	}}
}

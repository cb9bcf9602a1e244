package metrics

import (
	"github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/prometheus/client_golang/prometheus"
)

// VMMCHost is what the Collector asks of a host whose card runs VMMC's program; *lanai.Host
// of package vmmc/lanai has it.
type VMMCHost interface{ Snapshot() lanai.Snapshot }

var vmmcCardFields = []field[lanai.Snapshot]{
	{"bobnet_vmmccard_loaded", "1 if VMMC's program is on the card, and not the mapping program yet.", true, func(s *lanai.Snapshot) float64 {
		if s.Mapped {
			return 1
		}
		return 0
	}},
	{"bobnet_vmmccard_processes", "Processes on the card.", true, func(s *lanai.Snapshot) float64 { return float64(len(s.Processes)) }},
	{"bobnet_vmmccard_nodes", "Nodes that the card knows, itself among them.", true, func(s *lanai.Snapshot) float64 { return float64(s.Nodes) }},
	{"bobnet_vmmccard_writable_pages", "Pages of memory that others may write, or may yet.", true, func(s *lanai.Snapshot) float64 { return float64(s.Frames) }},
	{"bobnet_vmmccard_pinned_pages", "Pages that translations of processes keep in memory.", true, func(s *lanai.Snapshot) float64 {
		return ofProcesses(s, func(p *lanai.ProcessSnapshot) int { return p.Pinned })
	}},
	{"bobnet_vmmccard_proxy_pages", "Proxy pages of processes that lead somewhere.", true, func(s *lanai.Snapshot) float64 {
		return ofProcesses(s, func(p *lanai.ProcessSnapshot) int { return p.Proxies })
	}},
	{"bobnet_vmmccard_queued_requests", "Requests of processes that wait for a slot of their send queue.", true, func(s *lanai.Snapshot) float64 {
		return ofProcesses(s, func(p *lanai.ProcessSnapshot) int { return p.Waiting })
	}},
	{"bobnet_vmmccard_busy_buffers", "Packets on the card that have not left, or were not answered.", true, func(s *lanai.Snapshot) float64 { return float64(s.Buffers) }},
	{"bobnet_vmmccard_queued_messages", "Messages and notifications that wait for the driver, and messages of its that wait to be sent.", true, func(s *lanai.Snapshot) float64 { return float64(s.ToDriver + s.ToSend) }},
	{"bobnet_vmmccard_transmit_packets_total", "Packets that left, with answers.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.PacketsOut) }},
	{"bobnet_vmmccard_receive_packets_total", "Packets that came, with answers.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.PacketsIn) }},
	{"bobnet_vmmccard_transmit_memory_bytes_total", "Bytes of memory that left, without headers.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.OctetsOut) }},
	{"bobnet_vmmccard_receive_memory_bytes_total", "Bytes that were written to memory.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.OctetsIn) }},
	{"bobnet_vmmccard_chunks_total", "Pieces that were written to memory: a packet has one or two.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.Chunks) }},
	{"bobnet_vmmccard_retransmissions_total", "Packets that were sent again.", false, func(s *lanai.Snapshot) float64 { return float64(s.Sent.Again) }},
	{"bobnet_vmmccard_tlb_misses_total", "Translations that a TLB did not have.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.Misses) }},
	{"bobnet_vmmccard_tlb_refills_total", "Interrupts that have brought translations.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.Refills) }},
	{"bobnet_vmmccard_lines_cut_total", "Times that a line between this node and another one has ended.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.LinesCut) }},
	{"bobnet_vmmccard_misfit_routes_total", "Tables of the mapper's that did not fit.", false, func(s *lanai.Snapshot) float64 { return float64(s.Counters.RouteErrors) }},
}

// ofProcesses adds up something of all processes.
func ofProcesses(s *lanai.Snapshot, of func(p *lanai.ProcessSnapshot) int) float64 {
	n := 0
	for i := range s.Processes {
		n += of(&s.Processes[i])
	}
	return float64(n)
}

// The reasons why a card refuses requests of its processes, and why it drops packets.
var (
	vmmcCardRefusals = []reason[lanai.Snapshot]{
		{"too_long", "longer than a request can be", func(s *lanai.Snapshot) uint64 { return s.Counters.BadRequests }},
		{"not_imported", "to pages that the process has not imported", func(s *lanai.Snapshot) uint64 { return s.Counters.BadProxies }},
		{"not_its_memory", "from memory that is not the process's", func(s *lanai.Snapshot) uint64 { return s.Counters.BadAddresses }},
		{"no_request", "the doorbell was rung, and there is no next request", func(s *lanai.Snapshot) uint64 { return s.Counters.BadQueues }},
	}
	vmmcCardDrops = []reason[lanai.Snapshot]{
		{"strange", "not of this program, of unknown nodes, or without sense", func(s *lanai.Snapshot) uint64 { return s.Counters.Strange }},
		{"stale", "of a line that has ended", func(s *lanai.Snapshot) uint64 { return s.Counters.Stale }},
		{"too_soon", "one before them is missing, or the driver has no room; they wait, or come again", func(s *lanai.Snapshot) uint64 { return s.Counters.TooSoon }},
		{"no_route", "not sent: there is no route", func(s *lanai.Snapshot) uint64 { return s.Counters.NoRoute }},
		{"no_room", "as many answers wait to be sent as have room", func(s *lanai.Snapshot) uint64 { return s.Counters.Unanswered }},
		{"not_writable", "for pages that may not be written, or may not any more", func(s *lanai.Snapshot) uint64 { return s.Counters.Refused }},
	}
)

var (
	vmmcCardRefused = family{"bobnet_vmmccard_refused_requests_total", "Requests of processes that the card has refused, by reason.", false, append(cardLabels[:1:1], "reason")}
	vmmcCardDropped = family{"bobnet_vmmccard_dropped_packets_total", "Packets that VMMC's program has dropped, by reason.", false, append(cardLabels[:1:1], "reason")}
)

// WatchVMMCHost adds a host whose card runs VMMC's program to what is exported, with its
// cable and its mapper; call the result when it closes.
func (c *Collector) WatchVMMCHost(h VMMCHost) (forget func()) { return c.cards.add(vmmcCard{h}) }

type vmmcCard struct{ VMMCHost }

func (v vmmcCard) state() cardState {
	s := v.Snapshot()
	return cardState{s.Snapshot, s, func(c *Collector, ch chan<- prometheus.Metric, card string) {
		emit(ch, c.vmmcCard, vmmcCardFields, &s, card)
		count(ch, c.vmmcCardRefused, vmmcCardRefusals, &s, card)
		count(ch, c.vmmcCardDropped, vmmcCardDrops, &s, card)
	}}
}

package metrics

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/prometheus/client_golang/prometheus"
)

// Process is what the Collector asks of a process of VMMC; *vmmc.Process has it.
type Process interface{ Snapshot() vmmc.Snapshot }

var processLabels = []string{"process"}

var processFields = []field[vmmc.Snapshot]{
	{"bobnet_vmmc_exports", "Buffers that are exported.", true, func(s *vmmc.Snapshot) float64 { return float64(len(s.Exports)) }},
	{"bobnet_vmmc_exported_bytes", "Bytes in exported buffers.", true, func(s *vmmc.Snapshot) (n float64) {
		for _, e := range s.Exports {
			n += float64(e.Bytes)
		}
		return n
	}},
	{"bobnet_vmmc_importers", "Imports of this process's buffers by others.", true, func(s *vmmc.Snapshot) (n float64) {
		for _, e := range s.Exports {
			n += float64(e.Importers)
		}
		return n
	}},
	{"bobnet_vmmc_imports", "Buffers of others that are imported.", true, func(s *vmmc.Snapshot) float64 { return float64(s.Imports) }},
	{"bobnet_vmmc_waiting_requests", "Requests of others for buffers that are not exported yet.", true, func(s *vmmc.Snapshot) float64 { return float64(s.Asked) }},
	{"bobnet_vmmc_queued_notifications", "Notifications whose handlers have not begun.", true, func(s *vmmc.Snapshot) float64 { return float64(s.Queued) }},
	{"bobnet_vmmc_connections", "Connections with other processes.", true, func(s *vmmc.Snapshot) float64 { return float64(len(s.Peers)) }},
	{"bobnet_vmmc_writes_under_way", "Writes posted that are not known to be in the other process's memory.", true, func(s *vmmc.Snapshot) (n float64) {
		for i := range s.Peers {
			n += float64(s.Peers[i].UnderWay)
		}
		return n
	}},
	{"bobnet_vmmc_writes_total", "Writes posted. A message takes one, or a few if it is long or gathered.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Sends) }},
	{"bobnet_vmmc_copied_writes_total", "Writes posted whose data was copied, because it is short.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Copied) }},
	{"bobnet_vmmc_written_bytes_total", "Bytes in writes posted.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Bytes) }},
	{"bobnet_vmmc_imports_made_total", "Imports made.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Imports) }},
	{"bobnet_vmmc_imports_granted_total", "Imports granted to others.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Granted) }},
	{"bobnet_vmmc_imports_forced_total", "Imports taken back from processes that did not answer.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Forced) }},
	{"bobnet_vmmc_late_messages_total", "Messages that came too late for a redirection, and were copied.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Late) }},
	{"bobnet_vmmc_notifications_sent_total", "Notifications sent.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Notes) }},
	{"bobnet_vmmc_notification_stalls_total", "Notifications that had to wait for room at the receiver.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.NotesWaited) }},
	{"bobnet_vmmc_notifications_received_total", "Notifications that came.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Notified) }},
	{"bobnet_vmmc_handlers_total", "Handlers of notifications that have ended.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Handled) }},
	{"bobnet_vmmc_handler_panics_total", "Handlers that have panicked.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Panics) }},
	{"bobnet_vmmc_broken_connections_total", "Connections with other processes that ended by an error.", false, func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Broken) }},
}

// writeRefusals are the reasons why something that would lead to a write, or is one, is refused.
var writeRefusals = []reason[vmmc.Stats]{
	{"no_import", "here: the address of a send lies in no import", func(s *vmmc.Stats) uint64 { return s.Refused - s.PastEnd }},
	{"past_end", "here: a send ends behind the import that it begins in", func(s *vmmc.Stats) uint64 { return s.PastEnd }},
	{"policy", "of others: the export's policy does not let them import it", func(s *vmmc.Stats) uint64 { return s.Denied }},
	{"stranger", "of others: a request for a connection that makes no sense", func(s *vmmc.Stats) uint64 { return s.Strangers }},
	{"violation", "of others: what they sent breaks the protocol, and ended the connection", func(s *vmmc.Stats) uint64 { return s.Violations }},
}

var refusedWrites = family{"bobnet_vmmc_refused_total", "Writes that were refused, or prevented, by reason. Writes of others outside of what was granted end their VI: the NIC counts them as fatal.", false, append(processLabels[:1:1], "reason")}

// WatchProcess adds a process of VMMC to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchProcess(p Process) (forget func()) { return c.processes.add(p) }

func (c *Collector) collectProcesses(ch chan<- prometheus.Metric) {
	for _, p := range c.processes.list() {
		s := p.it.Snapshot()
		name := fmt.Sprintf("%v/%d", s.Self.Node, s.Self.Process)
		name += c.processes.distinct(p, name)
		emit(ch, c.process, processFields, &s, name)
		for i := range writeRefusals {
			ch <- counter(c.refusedWrites, writeRefusals[i].value(&s.Stats), name, writeRefusals[i].name)
		}
	}
}

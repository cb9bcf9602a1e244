package metrics

import (
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/prometheus/client_golang/prometheus"
)

// Daemon is what the Collector asks of the daemon of a node; *daemon.Daemon has it.
type Daemon interface{ Snapshot() daemon.Snapshot }

var daemonLabels = []string{"node"}

var daemonFields = []field[daemon.Snapshot]{
	{"bobnet_daemon_processes", "Processes of the node.", true, func(s *daemon.Snapshot) float64 { return float64(len(s.Processes)) }},
	{"bobnet_daemon_exports", "Buffers that they export.", true, func(s *daemon.Snapshot) (n float64) {
		for i := range s.Processes {
			n += float64(s.Processes[i].Exports)
		}
		return n
	}},
	{"bobnet_daemon_waiting_imports", "Imports of theirs whose exporter is not found yet.", true, func(s *daemon.Snapshot) (n float64) {
		for i := range s.Processes {
			n += float64(s.Processes[i].Matching)
		}
		return n
	}},
	{"bobnet_daemon_matches_total", "Exporters found for imports.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Matches) }},
	{"bobnet_daemon_users_proven_total", "Times that another daemon was told whose a process of this node is.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Proven) }},
	{"bobnet_daemon_users_unproven_total", "Times that another daemon asked for a ticket that is no process's.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Unproven) }},
	{"bobnet_daemon_deaths_total", "Processes of this node that have ended without a word.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Deaths) }},
	{"bobnet_daemon_deaths_heard_total", "Processes of other nodes that have ended, as their daemons say.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Told) }},
	{"bobnet_daemon_refused_processes_total", "Processes that were not let in.", false, func(s *daemon.Snapshot) float64 { return float64(s.Stats.Refused) }},
}

// WatchDaemon adds the daemon of a node to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchDaemon(d Daemon) (forget func()) { return c.daemons.add(d) }

func (c *Collector) collectDaemons(ch chan<- prometheus.Metric) {
	for _, x := range c.daemons.list() {
		s := x.it.Snapshot()
		name := s.Node.String()
		emit(ch, c.daemon, daemonFields, &s, name+c.daemons.distinct(x, name))
	}
}

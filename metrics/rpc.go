package metrics

import (
	"strconv"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/prometheus/client_golang/prometheus"
)

// RPCServer is what the Collector asks of a server of remote procedures; *vrpc.Server has it.
type RPCServer interface{ Snapshot() vrpc.Snapshot }

// maxPrograms is how many versions of programs of a server have time series of their own.
const maxPrograms = 32

var rpcLabels = []string{"server"}

var rpcFields = []field[vrpc.Snapshot]{
	{"bobnet_rpc_connections", "Connections that are open.", true, func(s *vrpc.Snapshot) float64 { return float64(s.ConnsOpen) }},
	{"bobnet_rpc_connections_total", "Connections that were accepted.", false, func(s *vrpc.Snapshot) float64 { return float64(s.Conns) }},
	{"bobnet_rpc_refused_connections_total", "Connections closed at once, because too many were open.", false, func(s *vrpc.Snapshot) float64 { return float64(s.ConnsRefused) }},
	{"bobnet_rpc_timed_out_connections_total", "Connections closed because half a call, or nothing, came, or a reply was not read.", false, func(s *vrpc.Snapshot) float64 { return float64(s.ConnsTimedOut) }},
	{"bobnet_rpc_broken_connections_total", "Connections closed for what they sent.", false, func(s *vrpc.Snapshot) float64 { return float64(s.ConnsBroken) }},
	{"bobnet_rpc_datagrams_total", "Datagrams received.", false, func(s *vrpc.Snapshot) float64 { return float64(s.Datagrams) }},
	{"bobnet_rpc_truncated_datagrams_total", "Datagrams dropped because they are longer than can be received.", false, func(s *vrpc.Snapshot) float64 { return float64(s.DatagramsTruncated) }},
	{"bobnet_rpc_unsent_replies_total", "Replies that the kernel did not take.", false, func(s *vrpc.Snapshot) float64 { return float64(s.DatagramSendErrors) }},
	{"bobnet_rpc_duplicates_answered_total", "Calls that were repeated and answered from the duplicate request cache.", false, func(s *vrpc.Snapshot) float64 { return float64(s.Duplicates) }},
	{"bobnet_rpc_duplicates_dropped_total", "Calls that were repeated while they were carried out, or have no reply.", false, func(s *vrpc.Snapshot) float64 { return float64(s.DuplicatesDropped) }},
	{"bobnet_rpc_duplicates_forgotten_total", "Replies that left the duplicate request cache before their time, because it was full.", false, func(s *vrpc.Snapshot) float64 { return float64(s.DuplicatesEvictedYoung) }},
	{"bobnet_rpc_procedure_panics_total", "Procedures that have panicked.", false, func(s *vrpc.Snapshot) float64 { return float64(s.Panics) }},
}

// callStatuses are what becomes of the calls of a program.
var callStatuses = []reason[vrpc.ProgramSnapshot]{
	accepted("success", "the procedure ran", vrpc.Success),
	accepted("program_unavailable", "the procedure said that the program is not there", vrpc.ProgUnavail),
	accepted("program_mismatch", "the procedure said that the version is not there", vrpc.ProgMismatch),
	accepted("procedure_unavailable", "the program does not have the procedure", vrpc.ProcUnavail),
	accepted("garbage_arguments", "the arguments could not be decoded", vrpc.GarbageArgs),
	accepted("system_error", "the procedure failed", vrpc.SystemErr),
	{"denied", "the program does not believe the caller", func(p *vrpc.ProgramSnapshot) uint64 { return p.Denied }},
	{"no_reply", "the procedure has none", func(p *vrpc.ProgramSnapshot) uint64 { return p.NoReply }},
}

func accepted(name, help string, stat vrpc.AcceptStat) reason[vrpc.ProgramSnapshot] {
	return reason[vrpc.ProgramSnapshot]{name, help, func(p *vrpc.ProgramSnapshot) uint64 { return p.Accepted[stat] }}
}

// callRefusals are the reasons why calls come to no program.
var callRefusals = []reason[vrpc.Snapshot]{
	{"no_call", "the message is no call", func(s *vrpc.Snapshot) uint64 { return s.NotACall }},
	{"rpc_mismatch", "it is of another version of the RPC protocol", func(s *vrpc.Snapshot) uint64 { return s.RPCMismatch }},
	{"program_unavailable", "the server does not have the program", func(s *vrpc.Snapshot) uint64 { return s.ProgUnavail }},
	{"program_mismatch", "the server has other versions of the program", func(s *vrpc.Snapshot) uint64 { return s.ProgMismatch }},
	{"authentication", "the server does not believe the caller, or the program does not", func(s *vrpc.Snapshot) (n uint64) {
		for _, k := range s.AuthErrors {
			n += k
		}
		return n
	}},
}

var (
	rpcCalls   = family{"bobnet_rpc_calls_total", "Calls of a version of a program, by what became of them.", false, append(rpcLabels[:1:1], "program", "version", "status")}
	rpcRefused = family{"bobnet_rpc_refused_calls_total", "Calls that the server itself answered, or dropped, by reason.", false, append(rpcLabels[:1:1], "reason")}
)

// WatchRPC adds a server of remote procedures to what is exported; call the result when it
// closes. Servers are numbered in their order.
func (c *Collector) WatchRPC(s RPCServer) (forget func()) { return c.servers.add(s) }

func (c *Collector) collectServers(ch chan<- prometheus.Metric) {
	for _, x := range c.servers.list() {
		s, name := x.it.Snapshot(), "rpc"+c.servers.distinct(x, "rpc")
		emit(ch, c.rpc, rpcFields, &s, name)
		for i := range callRefusals {
			ch <- counter(c.rpcRefused, callRefusals[i].value(&s), name, callRefusals[i].name)
		}
		var rest vrpc.ProgramSnapshot
		for i := range s.Programs {
			p := &s.Programs[i]
			if i < maxPrograms {
				c.collectCalls(ch, p, name, strconv.Itoa(int(p.Program)), strconv.Itoa(int(p.Version)))
				continue
			}
			for k, n := range p.Accepted {
				rest.Accepted[k] += n
			}
			rest.Denied += p.Denied
			rest.NoReply += p.NoReply
		}
		if len(s.Programs) > maxPrograms {
			c.collectCalls(ch, &rest, name, "other", "")
		}
	}
}

func (c *Collector) collectCalls(ch chan<- prometheus.Metric, p *vrpc.ProgramSnapshot, labels ...string) {
	for i := range callStatuses {
		ch <- counter(c.rpcCalls, callStatuses[i].value(p), append(labels, callStatuses[i].name)...)
	}
}

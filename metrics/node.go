package metrics

import (
	"strings"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/prometheus/client_golang/prometheus"
)

// Node is what the Collector asks of a node of active messages; *endpoint.Node
// has it.
type Node interface {
	Addr() ethertype.Addr
	Stats() endpoint.Stats
	Snapshot() endpoint.Snapshot
}

var nodeLabels = []string{"node"}

var nodeFields = []field[endpoint.Stats]{
	{"bobnet_am_requests_sent_total", "Requests sent.", false, func(s *endpoint.Stats) float64 { return float64(s.Sent) }},
	{"bobnet_am_request_handlers_total", "Request handlers run.", false, func(s *endpoint.Stats) float64 { return float64(s.Requests) }},
	{"bobnet_am_reply_handlers_total", "Reply handlers run.", false, func(s *endpoint.Stats) float64 { return float64(s.Replies) }},
	{"bobnet_am_credit_stalls_total", "Looks for a credit that found none.", false, func(s *endpoint.Stats) float64 { return float64(s.Stalls) }},
	{"bobnet_am_credit_seconds_total", "Time spent waiting for credits.", false, func(s *endpoint.Stats) float64 { return s.StallTime.Seconds() }},
	{"bobnet_am_refusals_heard_total", "Messages that peers have refused.", false, func(s *endpoint.Stats) float64 { return float64(s.Returns) }},
	{"bobnet_am_broken_connections_total", "Connections of endpoints that broke.", false, func(s *endpoint.Stats) float64 { return float64(s.Broken) }},
	{"bobnet_am_stray_messages_total", "Messages dropped, and requests for connections refused, because they belong to nothing or make no sense.", false, func(s *endpoint.Stats) float64 { return float64(s.Strays) }},
	{"bobnet_am_violations_total", "Connections ended because the client does not keep to the protocol.", false, func(s *endpoint.Stats) float64 { return float64(s.Violations) }},
	{"bobnet_am_handler_panics_total", "Handlers that have panicked.", false, func(s *endpoint.Stats) float64 { return float64(s.Panics) }},
	{"bobnet_am_lost_replies_total", "Replies that came back to endpoints without a handler for returned messages.", false, func(s *endpoint.Stats) float64 { return float64(s.LostReplies) }},
}

var (
	refused  = family{"bobnet_am_refused_messages_total", "Messages refused here, by reason.", false, append(nodeLabels[:1:1], "reason")}
	returned = family{"bobnet_am_returned_messages_total", "Messages that came back to an endpoint here, by reason.", false, append(nodeLabels[:1:1], "reason")}
)

// WatchNode adds a node of active messages to what is exported, besides its NIC,
// which WatchNIC adds; call the result when it closes.
func (c *Collector) WatchNode(n Node) (forget func()) { return c.nodes.add(n) }

func (c *Collector) collectNodes(ch chan<- prometheus.Metric) {
	for _, n := range c.nodes.list() {
		s, name := n.it.Stats(), n.it.Addr().String()
		name += c.nodes.distinct(n, name)
		emit(ch, c.node, nodeFields, &s, name)
		for _, r := range endpoint.Reasons() {
			ch <- counter(c.refused, s.Refused[r], name, reasonLabel(r))
			ch <- counter(c.returned, s.Returned[r], name, reasonLabel(r))
		}
	}
}

func reasonLabel(r endpoint.Reason) string { return strings.ReplaceAll(r.String(), " ", "_") }

package metrics

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/endpoint"
	amcard "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metric is the description of a metric for Prometheus.
type metric struct {
	name, help string
	labels     []string
}

func (m *metric) gauge() bool { return !strings.HasSuffix(m.name, "_total") }

func (m *metric) kind() (prometheus.ValueType, dto.MetricType) {
	if m.gauge() {
		return prometheus.GaugeValue, dto.MetricType_GAUGE
	}
	return prometheus.CounterValue, dto.MetricType_COUNTER
}

// table holds the metrics of a kind of object: those described by struct tags (package counters),
// and those that are computed.
type table struct {
	of      string // the object, as in docs/metrics.md
	labels  []string
	metrics []*metric
	series  []series
}

// series is one series of a metric, with the value of its last label if the metric has several
// series.
type series struct {
	*metric
	reason, means string
	sparse        bool
	value         func(v reflect.Value) (n float64, ok bool)
}

// shared completes the tags of a metric that has several fields: its help text, and the label that
// distinguishes its series, if there is one.
type shared struct {
	name, help, label string
	reasons           []reason // for an array, by index; those without a name have no series
	sparse            bool     // omit series that are 0
}

// reason is a value of a label.
type reason struct{ name, means string }

// computed is a series whose value is not a field.
type computed[S any] struct {
	name, reason, help string
	value              func(*S) float64
}

// tableOf returns the table of S with the tagged metrics whose names begin with one of prefixes.
func tableOf[S any](of string, labels []string, prefixes string, sharing []shared, also ...computed[S]) *table {
	t := &table{of: of, labels: labels}
	wanted := strings.Fields(prefixes)
	for _, f := range counters.Of(reflect.TypeFor[S]()) {
		if !slices.ContainsFunc(wanted, func(prefix string) bool { return strings.HasPrefix(f.Metric, prefix) }) {
			continue
		}
		k := slices.IndexFunc(sharing, func(s shared) bool { return s.name == f.Metric })
		switch {
		case k < 0:
			t.add(shared{name: f.Metric, help: f.Help}, series{value: f.Value})
		case f.Len == 0:
			t.add(sharing[k], series{reason: f.Reason, means: f.Help, value: f.Value})
		}
		for i := range f.Len {
			if r := sharing[k].reasons[i]; r.name != "" {
				t.add(sharing[k], series{reason: r.name, means: r.means, value: func(v reflect.Value) (float64, bool) { return f.At(v, i) }})
			}
		}
	}
	for _, c := range also {
		k := slices.IndexFunc(sharing, func(s shared) bool { return s.name == c.name })
		x := series{value: func(v reflect.Value) (float64, bool) { return c.value(v.Addr().Interface().(*S)), true }}
		if k < 0 {
			t.add(shared{name: c.name, help: c.help}, x)
		} else {
			x.reason, x.means = c.reason, c.help
			t.add(sharing[k], x)
		}
	}
	return t
}

func (t *table) add(s shared, x series) {
	k := slices.IndexFunc(t.metrics, func(m *metric) bool { return m.name == s.name })
	if k < 0 {
		m := &metric{name: s.name, help: s.help, labels: t.labels}
		if s.label != "" {
			m.labels = append(m.labels[:len(m.labels):len(m.labels)], s.label)
		}
		k, t.metrics = len(t.metrics), append(t.metrics, m)
	}
	x.metric, x.sparse = t.metrics[k], s.sparse
	t.series = append(t.series, x)
}

// byName returns the metrics of tables by name.
func byName(tables []*table) map[string]*metric {
	all := map[string]*metric{}
	for _, t := range tables {
		for _, m := range t.metrics {
			all[m.name] = m
		}
	}
	return all
}

// exporter exports the metrics of tables.
type exporter struct{ descs map[string]*prometheus.Desc }

func newExporter(constant prometheus.Labels, tables ...*table) exporter {
	e := exporter{map[string]*prometheus.Desc{}}
	for name, m := range byName(tables) {
		e.descs[name] = prometheus.NewDesc(name, m.help, m.labels, constant)
	}
	return e
}

// Describe implements prometheus.Collector.
func (e exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, name := range slices.Sorted(maps.Keys(e.descs)) {
		ch <- e.descs[name]
	}
}

// emit exports the metrics of t in s, a pointer to t's type of snapshot.
func (e exporter) emit(ch chan<- prometheus.Metric, t *table, s any, labels ...string) {
	v := reflect.ValueOf(s).Elem()
	for i := range t.series {
		x := &t.series[i]
		n, ok := x.value(v)
		if !ok || x.sparse && n == 0 {
			continue
		}
		its := labels
		if x.reason != "" {
			its = append(labels[:len(labels):len(labels)], x.reason)
		}
		kind, _ := x.kind()
		ch <- prometheus.MustNewConstMetric(e.descs[x.name], kind, n, its...)
	}
}

// emitAll exports all watched objects of a kind. If two have the same labels, the last label is
// made distinct.
func emitAll[T comparable, S any](e exporter, ch chan<- prometheus.Metric, w *watching[T], t *table, of func(T) S, labels func(T, *S) []string) {
	for _, x := range w.list() {
		s := of(x.it)
		e.emit(ch, t, &s, w.distinct(x, labels(x.it, &s)...)...)
	}
}

var (
	nicLabels  = []string{"interface", "port"}
	viLabels   = []string{"interface", "port", "vi"}
	cardLabels = []string{"card"}
)

// tables are the tables of a Collector, in the order of docs/metrics.md.
var tables = []*table{nicTable, nicInfo, sealTable, viTable, viInfo, rankTable, nodeTable, processTable, worldTable, streamTable, rpcTable, callTable,
	daemonTable, tunTable, cardTable, plainTable, amCardTable, vmmcCardTable, mapperTable, mapTable}

// The info metrics have labels that describe the object, and no field.
var (
	nicInfo = &table{of: "NIC", metrics: []*metric{{"bobnet_nic_info", "Always 1; the labels describe the NIC. The incarnation changes each time it is opened.",
		append(nicLabels[:2:2], "mac", "driver", "incarnation")}}}
	viInfo = &table{of: "VI", metrics: []*metric{{"bobnet_vi_info", "Always 1; the labels describe the VI.", append(viLabels[:3:3], "remote", "level", "state")}}}
)

var nicTable = tableOf("NIC", nicLabels, "bobnet_nic_ bobnet_link_", []shared{
	{name: "bobnet_nic_receive_dropped_frames_total", help: "Received frames dropped, by reason.", label: "reason", reasons: named(drops.All())},
	{name: "bobnet_nic_asynchronous_errors_total", help: "Asynchronous errors (VIPL), by code.", label: "code", reasons: errorCodes()},
	{name: "bobnet_link_dropped_frames_total", help: "Frames dropped by the link, by reason.", label: "reason"},
},
	computed[vipl.Snapshot]{"bobnet_nic_virtual_interfaces", "", "Existing VIs.", func(s *vipl.Snapshot) float64 { return float64(len(s.VIs) + s.Others) }},
	ofAllVIs("bobnet_nic_sends_completed_total", "Send descriptors completed without error, including closed VIs.", func(v *vipl.VIStats) uint64 { return v.SendsDone }),
	ofAllVIs("bobnet_nic_receives_total", "Messages received, including closed VIs.", func(v *vipl.VIStats) uint64 { return v.Receives }),
	ofAllVIs("bobnet_nic_transmit_payload_bytes_total", "Payload of completed sends, including closed VIs.", func(v *vipl.VIStats) uint64 { return v.TxBytes }),
	ofAllVIs("bobnet_nic_receive_payload_bytes_total", "Payload of received messages, including closed VIs.", func(v *vipl.VIStats) uint64 { return v.RxBytes }),
	ofAllVIs("bobnet_nic_retransmitted_frames_total", "Frames retransmitted, including closed VIs.", func(v *vipl.VIStats) uint64 { return v.Retransmits }))

// ofAllVIs adds up a counter of all VIs of a NIC, including closed ones.
func ofAllVIs(name, help string, of func(*vipl.VIStats) uint64) computed[vipl.Snapshot] {
	return computed[vipl.Snapshot]{name, "", help, func(s *vipl.Snapshot) float64 {
		n := of(&s.Closed)
		for i := range s.VIs {
			n += of(&s.VIs[i].VIStats)
		}
		return float64(n)
	}}
}

var sealTable = tableOf[seal.Stats]("NIC whose frames are sealed", nicLabels, "bobnet_seal_", []shared{
	{name: "bobnet_seal_dropped_frames_total", help: "Frames that could not be decrypted or sent because of encryption, by reason.", label: "reason"},
})

var viTable = tableOf("VI", viLabels, "bobnet_vi_", []shared{
	{name: "bobnet_vi_receive_dropped_frames_total", help: "Received frames for the VI that were dropped, by reason; only reasons that have occurred.", label: "reason",
		reasons: named(drops.All()), sparse: true}, // because there may be many VIs
	{name: "bobnet_vi_retransmissions_total", help: "Frames retransmitted since the VI was connected, by cause.", label: "cause"},
},
	computed[vipl.VISnapshot]{"bobnet_vi_oldest_unacknowledged_seconds", "", "Time since the first transmission of the oldest unacknowledged frame; 0 if there is none.",
		func(s *vipl.VISnapshot) float64 { return s.OldestUnacknowledged().Seconds() }})

// rankState is the complete state of a rank.
type rankState struct {
	mplite.Stats
	Pending mplite.Pending
}

var rankTable = tableOf[rankState]("rank", nil, "bobnet_mplite_", []shared{
	{name: "bobnet_mplite_collectives_total", help: "Collective operations started, by kind.", label: "collective", reasons: collectives()},
})

var nodeTable = tableOf[endpoint.Stats]("node", []string{"node"}, "bobnet_am_", []shared{
	{name: "bobnet_am_refused_messages_total", help: "Messages refused by this node, by reason.", label: "reason", reasons: amReasons()},
	{name: "bobnet_am_returned_messages_total", help: "Messages returned to endpoints of this node, by reason.", label: "reason", reasons: amReasons()},
})

func collectives() []reason {
	by := make([]reason, len(mplite.Stats{}.Collectives))
	for i := range by {
		by[i].name = mplite.Collective(i).String()
	}
	return by
}

func amReasons() []reason {
	by := make([]reason, len(endpoint.Stats{}.Refused))
	for r := 1; r < len(by); r++ { // 0 is none
		by[r].name = strings.ReplaceAll(endpoint.Reason(r).String(), " ", "_")
	}
	return by
}

func errorCodes() []reason {
	by := make([]reason, len(vipl.ErrorCounts{}))
	for i := range by {
		by[i].name = vipl.ErrorCode(i).String()
	}
	return by
}

var processTable = tableOf("process of VMMC", []string{"process"}, "bobnet_vmmc_", []shared{
	{name: "bobnet_vmmc_refused_total", help: "Sends and imports refused, by reason. Writes of peers outside their imports end the VI: the NIC counts them as fatal.", label: "reason"},
},
	computed[vmmc.Snapshot]{"bobnet_vmmc_refused_total", "no_import", "local: a send to an address outside all imports",
		func(s *vmmc.Snapshot) float64 { return float64(s.Stats.Refused - s.Stats.PastEnd) }})

var worldTable = tableOf[splitc.Snapshot]("process of Split-C", []string{"layer", "processor"}, "bobnet_splitc_", []shared{
	{name: "bobnet_splitc_operations_total", help: "Operations requested by the process, including bulk ones, by kind: read, write, get, put or store.", label: "kind"},
	{name: "bobnet_splitc_operation_bytes_total", help: "Bytes in operations requested by the process, by kind.", label: "kind"},
	{name: "bobnet_splitc_layer_stray_messages_total", help: "Unexpected messages."},
})

var streamTable = tableOf("host of streams", []string{"host"}, "bobnet_stream_", nil,
	computed[stream.Snapshot]{"bobnet_stream_waiting_streams", "", "Streams waiting to be accepted, including incomplete handshakes.", func(s *stream.Snapshot) (n float64) {
		for i := range s.Listeners {
			n += float64(s.Listeners[i].Waiting)
		}
		return n
	}})

var rpcTable = tableOf[vrpc.Snapshot]("server of remote procedures", []string{"server"}, "bobnet_rpc_", []shared{
	{name: "bobnet_rpc_refused_calls_total", help: "Calls answered or dropped by the server itself, by reason.", label: "reason"},
})

// callTable is for a program version of a server.
var callTable = tableOf[vrpc.ProgramSnapshot]("server of remote procedures", []string{"server", "program", "version"}, "bobnet_rpc_", []shared{
	{name: "bobnet_rpc_calls_total", help: "Calls of a version of a program, by outcome.", label: "status", reasons: []reason{
		vrpc.Success:      {"success", "the procedure ran"},
		vrpc.ProgUnavail:  {"program_unavailable", "the procedure returned that the program is unavailable"},
		vrpc.ProgMismatch: {"program_mismatch", "the procedure returned that the version is unavailable"},
		vrpc.ProcUnavail:  {"procedure_unavailable", "the program does not have the procedure"},
		vrpc.GarbageArgs:  {"garbage_arguments", "the arguments could not be decoded"},
		vrpc.SystemErr:    {"system_error", "the procedure failed"},
	}},
})

var daemonTable = tableOf[daemon.Snapshot]("daemon of a node", []string{"node"}, "bobnet_daemon_", nil)

var tunTable = tableOf[tun.Snapshot]("tun", []string{"device"}, "bobnet_tun_", []shared{
	{name: "bobnet_tun_dropped_packets_total", help: "Packets dropped, by reason.", label: "reason"},
})

// cardTable is for a card of the emulated Myrinet, whatever program it runs.
var cardTable = tableOf("card", cardLabels, "bobnet_card_", []shared{
	{name: "bobnet_card_dropped_packets_total", help: "Packets dropped by the card, by reason.", label: "reason"},
},
	ofCable("bobnet_card_cable_up", "", "1 if the other end of the card's cable is present.", func(p *hardware.LivePort) float64 {
		if p.Up {
			return 1
		}
		return 0
	}),
	ofCable("bobnet_card_blocked_seconds_total", "", "Total waiting time of packets received over the cable.", func(p *hardware.LivePort) float64 { return float64(p.Packets.BlockedNanos) / 1e9 }),
	ofCable("bobnet_card_sessions_total", "", "Sessions established with the other end of the card's cable.", func(p *hardware.LivePort) float64 { return float64(p.Frames.Sessions) }),
	ofCable("bobnet_card_dropped_packets_total", "cable", "the cable had no other end, its session ended, or the packet was blocked for too long",
		func(p *hardware.LivePort) float64 { return float64(p.Packets.Dropped() + p.Frames.TooLong) }))

// ofCable is 0 for a card in virtual time, whose cables belong to the fabric.
func ofCable(name, reason, help string, of func(*hardware.LivePort) float64) computed[station.Snapshot] {
	return computed[station.Snapshot]{name, reason, help, func(s *station.Snapshot) float64 {
		if s.Cable == nil {
			return 0
		}
		return of(s.Cable)
	}}
}

// Tables for the additional metrics of each program of a card.
var (
	plainTable  = tableOf[plain.Snapshot]("card", cardLabels, "bobnet_card_bad_ bobnet_card_send_ bobnet_card_receive_ring_", nil)
	amCardTable = tableOf[amcard.Snapshot]("card that holds endpoints", cardLabels, "bobnet_amcard_", []shared{
		{name: "bobnet_amcard_nacks_total", help: "NACKs sent by the card, by reason.", label: "reason", reasons: []reason{
			channels.NackResident:   {"not_resident", "the endpoint is not in a frame, or is being moved"},
			channels.NackOverrun:    {"overrun", "its receive queue is full"},
			channels.NackMemory:     {"not_pinned", "its staging area is not pinned"},
			channels.NackTag:        {"tag", "the message has another tag"},
			channels.NackNoEndpoint: {"no_endpoint", "the endpoint does not exist"},
		}},
		{name: "bobnet_amcard_returned_messages_total", help: "Messages returned to their senders by the card, by reason.", label: "reason"},
		{name: "bobnet_amcard_dropped_total", help: "Messages and packets dropped by the card or its driver, by reason.", label: "reason"},
	})
	vmmcCardTable = tableOf[vmmccard.Snapshot]("card that runs VMMC", cardLabels, "bobnet_vmmccard_", []shared{
		{name: "bobnet_vmmccard_queued_messages", help: "Messages and notifications that wait for the driver, and messages of the driver that wait to be sent."},
		{name: "bobnet_vmmccard_refused_requests_total", help: "Requests of processes refused by the card, by reason.", label: "reason"},
		{name: "bobnet_vmmccard_dropped_packets_total", help: "Packets dropped by VMMC's control program, by reason.", label: "reason"},
		{name: "bobnet_vmmccard_dropped_messages_total", help: "Messages between processes that the card's driver dropped, by reason.", label: "reason"},
	})
)

// Tables for a host's mapper, and for the last map of a leading one.
var (
	mapperTable = tableOf[mapper.Snapshot]("host's mapper", cardLabels, "bobnet_mapper_", []shared{
		{name: "bobnet_mapper_dropped_messages_total", help: "Messages of mappers that were dropped."},
	})
	mapTable = tableOf("host's mapper", cardLabels, "bobnet_map_", nil,
		computed[mapper.Map]{"bobnet_map_switches", "", "Switches on the last map.", func(m *mapper.Map) float64 { return float64(len(m.Topology.Switches)) }},
		computed[mapper.Map]{"bobnet_map_cables", "", "Cables on the last map.", func(m *mapper.Map) float64 { return float64(len(m.Topology.Cables)) }})
)

// switchTable is for a SwitchCollector.
var switchTable = tableOf[hardware.LivePort]("switch's port", []string{"switch", "port", "interface"}, "bobnet_switch_", []shared{
	{name: "bobnet_switch_dropped_packets_total", help: "Packets dropped: blocked for too long, without a route, too long, or because a session ended."},
	{name: "bobnet_switch_refused_frames_total", help: "Received frames dropped: duplicates, of strangers or old sessions, malformed, beyond the credit."},
})

// named returns reasons without an explanation.
func named[T fmt.Stringer](all []T) []reason {
	list := make([]reason, len(all))
	for i, v := range all {
		list[i].name = v.String()
	}
	return list
}

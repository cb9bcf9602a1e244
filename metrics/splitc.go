package metrics

import (
	"fmt"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/prometheus/client_golang/prometheus"
)

// World is what the Collector asks of a process of Split-C; *splitc.World has it.
type World interface{ Snapshot() splitc.Snapshot }

var worldLabels = []string{"layer", "processor"}

var worldFields = []field[splitc.Snapshot]{
	{"bobnet_splitc_heap_bytes", "Length of the spread heap.", true, func(s *splitc.Snapshot) float64 { return float64(s.HeapSize) }},
	{"bobnet_splitc_allocated_bytes", "Bytes of the spread heap that are allocated.", true, func(s *splitc.Snapshot) float64 { return float64(s.Allocated) }},
	{"bobnet_splitc_outstanding_operations", "Gets, puts and atomic procedures that are not complete.", true, func(s *splitc.Snapshot) float64 { return float64(s.Outstanding) }},
	{"bobnet_splitc_waiting_seconds", "How long the process has waited in the call that it is in; 0 if it computes.", true, func(s *splitc.Snapshot) float64 { return s.Waited.Seconds() }},
	{"bobnet_splitc_received_bytes_total", "Bytes that were stored into the heap.", false, func(s *splitc.Snapshot) float64 { return float64(s.Received) }},
	{"bobnet_splitc_atomics_total", "Atomic procedures called.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.Atomics) }},
	{"bobnet_splitc_atomics_served_total", "Atomic procedures run.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.Served) }},
	{"bobnet_splitc_syncs_total", "Calls of sync.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.Syncs) }},
	{"bobnet_splitc_store_syncs_total", "Calls of store_sync.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.StoreSyncs) }},
	{"bobnet_splitc_barriers_total", "Barriers.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.Barriers) }},
	{"bobnet_splitc_collectives_total", "Collectives of all kinds, each part of a long one.", false, func(s *splitc.Snapshot) float64 { return float64(s.Stats.Collectives) }},
	{"bobnet_splitc_layer_requests_total", "Requests that the layer has sent.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Requests) }},
	{"bobnet_splitc_layer_replies_total", "Replies that the layer has sent.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Replies) }},
	{"bobnet_splitc_layer_no_op_replies_total", "Replies that only acknowledge.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.NoOps) }},
	{"bobnet_splitc_layer_acknowledgments_total", "Special acknowledgements sent, which give credits back.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Acknowledgments) }},
	{"bobnet_splitc_layer_retransmissions_total", "Messages that the layer has sent again.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Retransmissions) }},
	{"bobnet_splitc_layer_duplicates_total", "Messages that had come before.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Duplicates) }},
	{"bobnet_splitc_layer_credit_stalls_total", "Looks for a credit that found none.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.CreditWaits) }},
	{"bobnet_splitc_layer_credit_seconds_total", "Time spent waiting for credits.", false, func(s *splitc.Snapshot) float64 { return s.Below.CreditTime.Seconds() }},
	{"bobnet_splitc_layer_rdma_reads_total", "RDMA reads of the layer.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Reads) }},
	{"bobnet_splitc_layer_rdma_writes_total", "RDMA writes of the layer.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Writes) }},
	{"bobnet_splitc_layer_direct_stores_total", "Stores into memory of this host.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Direct) }},
	{"bobnet_splitc_layer_refused_total", "Requests of others that were refused: outside the heap, or garbled.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Refused) }},
	{"bobnet_splitc_layer_stray_messages_total", "Messages that belong to nothing.", false, func(s *splitc.Snapshot) float64 { return float64(s.Below.Strays + s.Strays) }},
}

// splitcKinds are the kinds of operations that are counted with their bytes.
var splitcKinds = []struct {
	name  string
	count func(s *splitc.Stats) splitc.Count
}{
	{"read", func(s *splitc.Stats) splitc.Count { return s.Reads }},
	{"write", func(s *splitc.Stats) splitc.Count { return s.Writes }},
	{"get", func(s *splitc.Stats) splitc.Count { return s.Gets }},
	{"put", func(s *splitc.Stats) splitc.Count { return s.Puts }},
	{"store", func(s *splitc.Stats) splitc.Count { return s.Stores }},
}

var (
	splitcOps   = family{"bobnet_splitc_operations_total", "Operations that the process has asked for, bulk ones included, by kind: read, write, get, put or store.", false, append(worldLabels[:2:2], "kind")}
	splitcBytes = family{"bobnet_splitc_operation_bytes_total", "Bytes in them.", false, append(worldLabels[:2:2], "kind")}
)

// WatchWorld adds a process of Split-C to what is exported, besides its NIC, which
// WatchNIC adds; call the result before it exits.
func (c *Collector) WatchWorld(w World) (forget func()) { return c.worlds.add(w) }

func (c *Collector) collectWorlds(ch chan<- prometheus.Metric) {
	for _, w := range c.worlds.list() {
		s := w.it.Snapshot()
		rank := fmt.Sprint(s.Proc)
		rank += c.worlds.distinct(w, s.Layer+" "+rank)
		emit(ch, c.world, worldFields, &s, s.Layer, rank)
		for _, k := range splitcKinds {
			n := k.count(&s.Stats)
			ch <- counter(c.splitcOps, n.Ops, s.Layer, rank, k.name)
			ch <- counter(c.splitcBytes, n.Bytes, s.Layer, rank, k.name)
		}
	}
}

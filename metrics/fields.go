package metrics

import (
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
)

// field is one metric: its name, its help, and where its value stands in a
// snapshot of type S. The tables below are all that there is to know.
type field[S any] struct {
	name  string
	help  string
	gauge bool
	value func(*S) float64
}

func (f *field[S]) kind() prometheus.ValueType {
	if f.gauge {
		return prometheus.GaugeValue
	}
	return prometheus.CounterValue
}

// describe returns what Prometheus is told of a table's metrics.
func describe[S any](fields []field[S], constant prometheus.Labels, labels ...string) []*prometheus.Desc {
	descs := make([]*prometheus.Desc, len(fields))
	for i, f := range fields {
		descs[i] = prometheus.NewDesc(f.name, f.help, labels, constant)
	}
	return descs
}

// family is a metric whose last labels have a value for each of several
// things, or say what something is.
type family struct {
	name   string
	help   string
	gauge  bool
	labels []string
}

func (f *family) describe(constant prometheus.Labels) *prometheus.Desc {
	return prometheus.NewDesc(f.name, f.help, f.labels, constant)
}

// The labels of metrics of a NIC, and of those of a VI.
var (
	nicLabels = []string{"interface", "port"}
	viLabels  = []string{"interface", "port", "vi"}
)

var (
	nicInfo     = family{"bobnet_nic_info", "Always 1; the labels say what the NIC is. The incarnation is new with every opening.", true, append(nicLabels[:2:2], "mac", "driver", "incarnation")}
	viInfo      = family{"bobnet_vi_info", "Always 1; the labels say what the VI is.", true, append(viLabels[:3:3], "remote", "level", "state")}
	drops       = family{"bobnet_nic_receive_dropped_frames_total", "Frames that arrived and were not used, by reason.", false, append(nicLabels[:2:2], "reason")}
	errors      = family{"bobnet_nic_asynchronous_errors_total", "Asynchronous errors (VIPL), by code.", false, append(nicLabels[:2:2], "code")}
	lost        = family{"bobnet_link_dropped_frames_total", "Frames that the link lost, by reason.", false, append(nicLabels[:2:2], "reason")}
	unused      = family{"bobnet_vi_receive_dropped_frames_total", "Frames that came for the VI and were not used, by reason; only reasons that have occurred.", false, append(viLabels[:3:3], "reason")}
	again       = family{"bobnet_vi_retransmissions_total", "Frames sent again since the VI was connected, by cause: fast when a later one had arrived, probe at the end of a flight, timeout as the last resort.", false, append(viLabels[:3:3], "cause")}
	collectives = family{"bobnet_mplite_collectives_total", "Collective operations begun, by kind.", false, []string{"collective"}}
)

// families are all of them.
var families = []*family{&tunDropped, &sealDropped, &nicInfo, &viInfo, &drops, &errors, &lost, &unused, &again, &collectives, &refused, &returned, &refusedWrites, &splitcOps, &splitcBytes, &rpcCalls, &rpcRefused, &cardDropped,
	&endpointCardNacked, &endpointCardReturned, &endpointCardDropped, &vmmcCardRefused, &vmmcCardDropped}

var nicFields = []field[vipl.Snapshot]{
	{"bobnet_nic_transmit_frames_total", "Frames handed to the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxFrames) }},
	{"bobnet_nic_transmit_bytes_total", "Bytes handed to the link, headers included.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxBytes) }},
	{"bobnet_nic_receive_frames_total", "Valid frames taken from the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.RxFrames) }},
	{"bobnet_nic_receive_bytes_total", "Bytes of valid frames taken from the link, headers included.", false, func(s *vipl.Snapshot) float64 { return float64(s.RxBytes) }},
	{"bobnet_nic_transmit_joined_frames_total", "Frames that went in the Ethernet frame of the one before them, which alone counts as handed to the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxJoined) }},
	{"bobnet_nic_receive_joined_frames_total", "Valid frames that came in the Ethernet frame of the one before them, which alone counts as taken from the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.RxJoined) }},
	{"bobnet_nic_transmit_dropped_frames_total", "Frames that could not be handed to the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxDropped) }},
	{"bobnet_nic_log_lines_lost_total", "Log lines lost because the handler of the logger was blocked.", false, func(s *vipl.Snapshot) float64 { return float64(s.LogsLost) }},
	{"bobnet_nic_unanswered_frames_total", "Frames of anybody, such as echoes and requests nobody listens for, that were not answered because so many had been.", false, func(s *vipl.Snapshot) float64 { return float64(s.Unanswered) }},
	{"bobnet_nic_transmit_too_long_frames_total", "Frames that the link refused for good although shorter ones passed.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxTooLong) }},
	{"bobnet_nic_completion_queue_overruns_total", "Completion queue entries lost because the queue was full.", false, func(s *vipl.Snapshot) float64 { return float64(s.CQOverruns) }},
	{"bobnet_nic_connection_failures_total", "Connections that this side ended because of an error.", false, func(s *vipl.Snapshot) float64 { return float64(s.Failures) }},
	{"bobnet_nic_virtual_interfaces", "VIs that exist.", true, func(s *vipl.Snapshot) float64 { return float64(len(s.VIs) + s.Others) }},
	{"bobnet_nic_memory_regions", "Registered memory regions.", true, func(s *vipl.Snapshot) float64 { return float64(s.Regions) }},
	{"bobnet_nic_memory_bytes", "Bytes in registered memory regions.", true, func(s *vipl.Snapshot) float64 { return float64(s.RegionBytes) }},
	{"bobnet_nic_mtu_bytes", "Largest frame without its Ethernet header.", true, func(s *vipl.Snapshot) float64 { return float64(s.Attributes.NativeMTU) }},
	{"bobnet_nic_sends_completed_total", "Send descriptors completed without error, closed VIs included.", false, func(s *vipl.Snapshot) float64 { return sum(s, func(v *vipl.VIStats) uint64 { return v.SendsDone }) }},
	{"bobnet_nic_receives_total", "Messages received, closed VIs included.", false, func(s *vipl.Snapshot) float64 { return sum(s, func(v *vipl.VIStats) uint64 { return v.Receives }) }},
	{"bobnet_nic_transmit_payload_bytes_total", "Payload of completed sends, closed VIs included.", false, func(s *vipl.Snapshot) float64 { return sum(s, func(v *vipl.VIStats) uint64 { return v.TxBytes }) }},
	{"bobnet_nic_receive_payload_bytes_total", "Payload of received messages, closed VIs included.", false, func(s *vipl.Snapshot) float64 { return sum(s, func(v *vipl.VIStats) uint64 { return v.RxBytes }) }},
	{"bobnet_nic_retransmitted_frames_total", "Frames sent again, closed VIs included.", false, func(s *vipl.Snapshot) float64 { return sum(s, func(v *vipl.VIStats) uint64 { return v.Retransmits }) }},
	{"bobnet_nic_waiting_goroutines", "Goroutines that wait for something, the one that drives the engine not among them.", true, func(s *vipl.Snapshot) float64 { return float64(s.Engine.Waiting) }},
	{"bobnet_nic_spin_seconds", "What a wait polls for at present before it blocks.", true, func(s *vipl.Snapshot) float64 { return s.Engine.Spin.Seconds() }},
	{"bobnet_link_transmit_frames_total", "Frames that the link has sent.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxFrames) }},
	{"bobnet_link_transmit_xdp_frames_total", "Of the frames that the link has sent, those through an AF_XDP socket.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxXDP) }},
	{"bobnet_link_receive_frames_total", "Frames that the link has received.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.RxFrames) }},
	{"bobnet_link_transmit_calls_total", "System calls, or what stands for them, that sent frames.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxCalls) }},
	{"bobnet_link_receive_calls_total", "System calls, or what stands for them, that received frames.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.RxCalls) }},
	{"bobnet_link_transmit_full_total", "Times the network's queue was full.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxFull) }},
	{"bobnet_link_refused_users_total", "Times a program of another user of this host was refused shared memory.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.Refused) }},
	{"bobnet_link_waits_total", "Times a thread slept on the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.Waits) }},
}

// sum adds a counter over all VIs that a NIC has had.
func sum(s *vipl.Snapshot, of func(*vipl.VIStats) uint64) float64 {
	n := of(&s.Closed)
	for i := range s.VIs {
		n += of(&s.VIs[i].VIStats)
	}
	return float64(n)
}

// linkDrops are the reasons why a link itself loses frames.
var linkDrops = []reason[transport.Stats]{
	{"transmit_refused", "the network refused them", func(s *transport.Stats) uint64 { return s.TxDrops }},
	{"receive_queue_full", "they came faster than anybody took them", func(s *transport.Stats) uint64 { return s.RxDrops }},
	{"truncated", "longer than a slot of the receive queue", func(s *transport.Stats) uint64 { return s.RxTruncated }},
	{"filtered", "not ours: EtherType, destination, port or source", func(s *transport.Stats) uint64 { return s.RxFiltered }},
	{"fault", "a fault wrapper dropped, copied, delayed or changed them", func(s *transport.Stats) uint64 { return s.Faults }},
}

// causes are why frames go again.
var causes = []reason[reliability.SenderStats]{
	{"fast", "one sent later had arrived", func(s *reliability.SenderStats) uint64 { return s.Fast }},
	{"probe", "the end of a flight was not answered", func(s *reliability.SenderStats) uint64 { return s.Probes }},
	{"timeout", "nothing was answered", func(s *reliability.SenderStats) uint64 { return s.Timeouts }},
}

// reason is one value of a family's last label.
type reason[S any] struct {
	name  string
	help  string
	value func(*S) uint64
}

var viFields = []field[vipl.VISnapshot]{
	{"bobnet_vi_sends_total", "Send descriptors posted.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Sends) }},
	{"bobnet_vi_sends_completed_total", "Send descriptors completed without error.", false, func(s *vipl.VISnapshot) float64 { return float64(s.SendsDone) }},
	{"bobnet_vi_receives_total", "Messages received.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Receives) }},
	{"bobnet_vi_transmit_bytes_total", "Payload of completed sends.", false, func(s *vipl.VISnapshot) float64 { return float64(s.TxBytes) }},
	{"bobnet_vi_receive_bytes_total", "Payload of received messages.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RxBytes) }},
	{"bobnet_vi_rdma_bytes_total", "Bytes that the peer wrote to or read from this side's memory by RDMA.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RDMABytes) }},
	{"bobnet_vi_transmit_frames_total", "Frames sent, acknowledgements included.", false, func(s *vipl.VISnapshot) float64 { return float64(s.TxFrames) }},
	{"bobnet_vi_receive_frames_total", "Frames received, duplicates included.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RxFrames) }},
	{"bobnet_vi_retransmitted_frames_total", "Frames sent again.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Retransmits) }},
	{"bobnet_vi_bare_acknowledgements_total", "Frames sent only to acknowledge.", false, func(s *vipl.VISnapshot) float64 { return float64(s.BareAcks) }},
	{"bobnet_vi_needless_retransmissions_total", "Frames sent again although the first had arrived, since the VI was connected.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Sender.Needless) }},
	{"bobnet_vi_congestion_reactions_total", "Times the congestion window was cut because of loss, since the VI was connected.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Sender.Cuts) }},
	{"bobnet_vi_send_queue_descriptors", "Descriptors on the send queue.", true, func(s *vipl.VISnapshot) float64 { return float64(s.SendQueue) }},
	{"bobnet_vi_receive_queue_descriptors", "Descriptors on the receive queue.", true, func(s *vipl.VISnapshot) float64 { return float64(s.RecvQueue) }},
	{"bobnet_vi_send_queue_untaken_descriptors", "Completed sends that the program has not taken.", true, func(s *vipl.VISnapshot) float64 { return float64(s.SendUntaken) }},
	{"bobnet_vi_receive_queue_untaken_descriptors", "Received messages that the program has not taken.", true, func(s *vipl.VISnapshot) float64 { return float64(s.RecvUntaken) }},
	{"bobnet_vi_oldest_unacknowledged_seconds", "Time since the oldest unacknowledged frame was sent first; 0 if there is none.", true, func(s *vipl.VISnapshot) float64 { return s.OldestUnacknowledged().Seconds() }},
	{"bobnet_vi_frames_in_flight", "Frames sent and not yet acknowledged.", true, func(s *vipl.VISnapshot) float64 { return float64(s.Sender.InFlight) }},
	{"bobnet_vi_frame_data_bytes", "Bytes of messages that a frame to the peer holds: more than the MTU where the path carries long frames.", true, func(s *vipl.VISnapshot) float64 { return float64(s.FrameData) }},
	{"bobnet_vi_congestion_window_frames", "Congestion window.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.Window }},
	{"bobnet_vi_slow_start_threshold_frames", "Congestion window at which slow start ends.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.Threshold }},
	{"bobnet_vi_round_trip_seconds", "Smoothed round-trip time.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.RTT.Seconds() }},
	{"bobnet_vi_round_trip_variation_seconds", "Mean deviation of the round-trip time.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.Variation.Seconds() }},
	{"bobnet_vi_round_trip_minimum_seconds", "Smallest round-trip time of the last seconds.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.MinRTT.Seconds() }},
	{"bobnet_vi_retransmission_timeout_seconds", "Retransmission time-out, back-off included.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.RTO.Seconds() }},
	{"bobnet_vi_unanswered_timeouts", "Time-outs since the peer has acknowledged anything.", true, func(s *vipl.VISnapshot) float64 { return float64(s.Sender.Tries) }},
	{"bobnet_vi_last_heard_seconds", "Time since the peer was last heard.", true, func(s *vipl.VISnapshot) float64 { return float64(s.LastHeard) / 1e9 }},
}

// rankState is all that is known of a rank.
type rankState struct {
	mplite.Stats
	Pending mplite.Pending
}

var rankFields = []field[rankState]{
	{"bobnet_mplite_eager_sent_total", "Messages sent through bounce buffers.", false, func(s *rankState) float64 { return float64(s.EagerSent) }},
	{"bobnet_mplite_eager_received_total", "Messages received through bounce buffers.", false, func(s *rankState) float64 { return float64(s.EagerReceived) }},
	{"bobnet_mplite_rendezvous_sent_total", "Messages announced and then written to the receiver's memory.", false, func(s *rankState) float64 { return float64(s.RendezvousSent) }},
	{"bobnet_mplite_rendezvous_received_total", "Messages that the sender wrote to this rank's memory.", false, func(s *rankState) float64 { return float64(s.RendezvousReceived) }},
	{"bobnet_mplite_sent_bytes_total", "Payload sent.", false, func(s *rankState) float64 { return float64(s.BytesSent) }},
	{"bobnet_mplite_received_bytes_total", "Payload received.", false, func(s *rankState) float64 { return float64(s.BytesReceived) }},
	{"bobnet_mplite_self_messages_total", "Messages of the rank to itself.", false, func(s *rankState) float64 { return float64(s.SelfMessages) }},
	{"bobnet_mplite_credit_stalls_total", "Sends that had to wait for the receiver to make room.", false, func(s *rankState) float64 { return float64(s.CreditStalls) }},
	{"bobnet_mplite_unexpected_messages", "Messages that wait for their receive.", true, func(s *rankState) float64 { return float64(s.Unexpected) }},
	{"bobnet_mplite_unexpected_messages_maximum", "Most messages that have waited for their receive at a time.", true, func(s *rankState) float64 { return float64(s.UnexpectedMax) }},
	{"bobnet_mplite_spill_bytes", "Memory that messages without a receive take beyond the receive buffers.", true, func(s *rankState) float64 { return float64(s.SpillBytes) }},
	{"bobnet_mplite_pending_receives", "Receives that have begun and not ended.", true, func(s *rankState) float64 { return float64(s.Pending.NumReceives) }},
	{"bobnet_mplite_pending_sends", "Sends that have begun and not ended.", true, func(s *rankState) float64 { return float64(s.Pending.NumSends) }},
	{"bobnet_mplite_credit_messages_total", "Messages that only returned credits.", false, func(s *rankState) float64 { return float64(s.CreditMessages) }},
	{"bobnet_mplite_stray_messages_total", "Control messages that named no operation of this rank.", false, func(s *rankState) float64 { return float64(s.Strays) }},
	{"bobnet_mplite_refused_requests_total", "Requests for a connection from who does not belong to the job.", false, func(s *rankState) float64 { return float64(s.Refused) }},
	{"bobnet_mplite_failed_ranks_total", "Ranks found dead.", false, func(s *rankState) float64 { return float64(s.RanksFailed) }},
}

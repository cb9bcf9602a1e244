package metrics

import (
	"github.com/bobnet-go/bobnet/mplite"
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

var nicFields = []field[vipl.Snapshot]{
	{"bobnet_nic_transmit_frames_total", "Frames handed to the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxFrames) }},
	{"bobnet_nic_transmit_bytes_total", "Bytes handed to the link, headers included.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxBytes) }},
	{"bobnet_nic_receive_frames_total", "Valid frames taken from the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.RxFrames) }},
	{"bobnet_nic_receive_bytes_total", "Bytes of valid frames taken from the link, headers included.", false, func(s *vipl.Snapshot) float64 { return float64(s.RxBytes) }},
	{"bobnet_nic_transmit_dropped_frames_total", "Frames that could not be handed to the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.TxDropped) }},
	{"bobnet_nic_completion_queue_overruns_total", "Completion queue entries lost because the queue was full.", false, func(s *vipl.Snapshot) float64 { return float64(s.CQOverruns) }},
	{"bobnet_nic_connection_failures_total", "Connections that this side ended because of an error.", false, func(s *vipl.Snapshot) float64 { return float64(s.Failures) }},
	{"bobnet_nic_virtual_interfaces", "VIs that exist.", true, func(s *vipl.Snapshot) float64 { return float64(len(s.VIs)) }},
	{"bobnet_nic_memory_regions", "Registered memory regions.", true, func(s *vipl.Snapshot) float64 { return float64(s.Regions) }},
	{"bobnet_nic_mtu_bytes", "Largest frame without its Ethernet header.", true, func(s *vipl.Snapshot) float64 { return float64(s.Attributes.NativeMTU) }},
	{"bobnet_link_transmit_calls_total", "System calls, or what stands for them, that sent frames.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxCalls) }},
	{"bobnet_link_transmit_full_total", "Times the network's queue was full.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxFull) }},
	{"bobnet_link_waits_total", "Times a thread slept on the link.", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.Waits) }},
}

// linkDrops are the reasons why a link itself loses frames.
var linkDrops = []field[vipl.Snapshot]{
	{"transmit_refused", "", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.TxDrops) }},
	{"receive_queue_full", "", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.RxDrops) }},
	{"truncated", "", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.RxTruncated) }},
	{"filtered", "", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.RxFiltered) }},
	{"fault", "", false, func(s *vipl.Snapshot) float64 { return float64(s.Link.Faults) }},
}

var viFields = []field[vipl.VISnapshot]{
	{"bobnet_vi_sends_total", "Send descriptors posted.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Sends) }},
	{"bobnet_vi_sends_completed_total", "Send descriptors completed without error.", false, func(s *vipl.VISnapshot) float64 { return float64(s.SendsDone) }},
	{"bobnet_vi_receives_total", "Messages received.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Receives) }},
	{"bobnet_vi_transmit_bytes_total", "Payload of completed sends.", false, func(s *vipl.VISnapshot) float64 { return float64(s.TxBytes) }},
	{"bobnet_vi_receive_bytes_total", "Payload of received messages.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RxBytes) }},
	{"bobnet_vi_rdma_write_bytes_total", "Bytes that the peer wrote here by RDMA.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RDMABytes) }},
	{"bobnet_vi_transmit_frames_total", "Frames sent, acknowledgements included.", false, func(s *vipl.VISnapshot) float64 { return float64(s.TxFrames) }},
	{"bobnet_vi_receive_frames_total", "Frames received, duplicates included.", false, func(s *vipl.VISnapshot) float64 { return float64(s.RxFrames) }},
	{"bobnet_vi_retransmitted_frames_total", "Frames sent again.", false, func(s *vipl.VISnapshot) float64 { return float64(s.Retransmits) }},
	{"bobnet_vi_bare_acknowledgements_total", "Frames sent only to acknowledge.", false, func(s *vipl.VISnapshot) float64 { return float64(s.BareAcks) }},
	{"bobnet_vi_send_queue_descriptors", "Descriptors on the send queue.", true, func(s *vipl.VISnapshot) float64 { return float64(s.SendQueue) }},
	{"bobnet_vi_receive_queue_descriptors", "Descriptors on the receive queue.", true, func(s *vipl.VISnapshot) float64 { return float64(s.RecvQueue) }},
	{"bobnet_vi_frames_in_flight", "Frames sent and not yet acknowledged.", true, func(s *vipl.VISnapshot) float64 { return float64(s.Sender.InFlight) }},
	{"bobnet_vi_congestion_window_frames", "Congestion window.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.Window }},
	{"bobnet_vi_round_trip_seconds", "Smoothed round-trip time.", true, func(s *vipl.VISnapshot) float64 { return s.Sender.RTT.Seconds() }},
	{"bobnet_vi_last_heard_seconds", "Time since the peer was last heard.", true, func(s *vipl.VISnapshot) float64 { return float64(s.LastHeard) / 1e9 }},
}

var rankFields = []field[mplite.Stats]{
	{"bobnet_mplite_eager_sent_total", "Messages sent through bounce buffers.", false, func(s *mplite.Stats) float64 { return float64(s.EagerSent) }},
	{"bobnet_mplite_eager_received_total", "Messages received through bounce buffers.", false, func(s *mplite.Stats) float64 { return float64(s.EagerReceived) }},
	{"bobnet_mplite_rendezvous_sent_total", "Messages announced and then written to the receiver's memory.", false, func(s *mplite.Stats) float64 { return float64(s.RendezvousSent) }},
	{"bobnet_mplite_rendezvous_received_total", "Messages that the sender wrote to this rank's memory.", false, func(s *mplite.Stats) float64 { return float64(s.RendezvousReceived) }},
	{"bobnet_mplite_sent_bytes_total", "Payload sent.", false, func(s *mplite.Stats) float64 { return float64(s.BytesSent) }},
	{"bobnet_mplite_received_bytes_total", "Payload received.", false, func(s *mplite.Stats) float64 { return float64(s.BytesReceived) }},
	{"bobnet_mplite_self_messages_total", "Messages of the rank to itself.", false, func(s *mplite.Stats) float64 { return float64(s.SelfMessages) }},
	{"bobnet_mplite_credit_stalls_total", "Sends that had to wait for the receiver to make room.", false, func(s *mplite.Stats) float64 { return float64(s.CreditStalls) }},
	{"bobnet_mplite_unexpected_messages", "Messages that wait for their receive.", true, func(s *mplite.Stats) float64 { return float64(s.Unexpected) }},
	{"bobnet_mplite_failed_ranks_total", "Ranks found dead.", false, func(s *mplite.Stats) float64 { return float64(s.RanksFailed) }},
}

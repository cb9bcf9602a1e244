package vipl

import (
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// DropCounts counts received frames that were dropped, by reason. Each frame has exactly one
// reason. DropCounts.Of and the members of the JSON object name the reasons as docs/metrics.md
// lists them: crc, duplicate, no_receive and so on.
type DropCounts [20]uint64

// Of returns the count of a reason by its name, 0 for a name that does not exist.
func (c *DropCounts) Of(reason string) uint64 { return (*drops.Counts)(c).Of(reason) }

// MarshalJSON returns an object with a member for each reason that has occurred.
func (c DropCounts) MarshalJSON() ([]byte, error) { return drops.Counts(c).MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes. Reasons that it does not know are left out.
func (c *DropCounts) UnmarshalJSON(text []byte) error { return (*drops.Counts)(c).UnmarshalJSON(text) }

// NICStats are a NIC's counters since it was opened.
type NICStats struct {
	TxFrames    uint64      `metric:"bobnet_nic_transmit_frames_total" help:"Frames passed to the link."`
	TxBytes     uint64      `metric:"bobnet_nic_transmit_bytes_total" help:"Bytes passed to the link, including headers."`
	RxFrames    uint64      `metric:"bobnet_nic_receive_frames_total" help:"Valid frames received from the link."`
	RxBytes     uint64      `metric:"bobnet_nic_receive_bytes_total" help:"Bytes of valid frames received from the link, including headers."`
	TxDropped   uint64      `metric:"bobnet_nic_transmit_dropped_frames_total" help:"Frames that could not be passed to the link."`
	Unanswered  uint64      `metric:"bobnet_nic_unanswered_frames_total" help:"Unsolicited frames dropped by the reply rate limiter."`
	TxJoined    uint64      `metric:"bobnet_nic_transmit_joined_frames_total" help:"Frames that shared the Ethernet frame of the previous one, and do not count as passed to the link."`
	RxJoined    uint64      `metric:"bobnet_nic_receive_joined_frames_total" help:"Valid frames that shared the Ethernet frame of the previous one, and do not count as received from the link."`
	TxTooLong   uint64      `metric:"bobnet_nic_transmit_too_long_frames_total" help:"Frames that the link permanently refused although shorter ones passed."`
	Dropped     DropCounts  `metric:"bobnet_nic_receive_dropped_frames_total"`
	CQOverruns  uint64      `metric:"bobnet_nic_completion_queue_overruns_total" help:"Completion queue entries lost because the queue was full."`
	Errors      ErrorCounts `metric:"bobnet_nic_asynchronous_errors_total"` // asynchronous errors, whether or not a handler received them
	ErrorsLost  uint64      // asynchronous errors lost because the handler was too slow
	LogsLost    uint64      `metric:"bobnet_nic_log_lines_lost_total" help:"Log lines lost because the logger's handler was blocked."`
	Failures    uint64      `metric:"bobnet_nic_connection_failures_total" help:"Connections ended by this side because of an error."`
	LongStarts  uint64      `metric:"bobnet_nic_long_frames_started_total" help:"Times that the NIC began to receive long frames, because a connection asked for them."`
	LongOn      int         `metric:"bobnet_nic_long_frames" help:"1 while the NIC receives long frames, else 0."`
	Regions     int         `metric:"bobnet_nic_memory_regions" help:"Registered memory regions."`
	RegionBytes int         `metric:"bobnet_nic_memory_bytes" help:"Bytes in registered memory regions."`
	Closed      VIStats     // sum over closed VIs
}

// VIStats are a VI's counters since it was created.
type VIStats struct {
	Sends       uint64 `metric:"bobnet_vi_sends_total" help:"Send descriptors posted."`
	SendsDone   uint64 `metric:"bobnet_vi_sends_completed_total" help:"Send descriptors completed without error."`
	Receives    uint64 `metric:"bobnet_vi_receives_total" help:"Messages received."`
	TxBytes     uint64 `metric:"bobnet_vi_transmit_bytes_total" help:"Payload of completed sends."`
	RxBytes     uint64 `metric:"bobnet_vi_receive_bytes_total" help:"Payload of received messages."`
	RDMABytes   uint64 `metric:"bobnet_vi_rdma_bytes_total" help:"Bytes that the peer wrote to or read from this side's memory by RDMA."`
	TxFrames    uint64 `metric:"bobnet_vi_transmit_frames_total" help:"Frames sent, including acknowledgements."`
	RxFrames    uint64 `metric:"bobnet_vi_receive_frames_total" help:"Frames received, including duplicates."`
	Retransmits uint64 `metric:"bobnet_vi_retransmitted_frames_total" help:"Frames retransmitted."`
	BareAcks    uint64 `metric:"bobnet_vi_bare_acknowledgements_total" help:"Frames sent only as acknowledgements."`
	LongAsks    uint64 `metric:"bobnet_vi_long_frame_requests_total" help:"Times that the VI asked whether the path carries long frames."`
	LongStops   uint64 `metric:"bobnet_vi_long_frame_stops_total" help:"Times that the path stopped carrying the VI's long frames."`
	// Dropped counts dropped frames for this VI. The NIC's counters include them.
	Dropped DropCounts `metric:"bobnet_vi_receive_dropped_frames_total"`
}

// statsOf returns the counters of a connection's VI.
func statsOf(s *conn.Stats) VIStats {
	return VIStats{
		Sends: s.Sends, SendsDone: s.SendsDone, Receives: s.Receives, TxBytes: s.TxBytes, RxBytes: s.RxBytes, RDMABytes: s.RDMABytes,
		TxFrames: s.TxFrames, RxFrames: s.RxFrames, Retransmits: s.Retransmits, BareAcks: s.BareAcks, LongAsks: s.LongAsks, LongStops: s.LongStops,
		Dropped: DropCounts(s.Dropped),
	}
}

// someDrops lists the reasons that have occurred.
func someDrops(c *DropCounts) []string {
	counts := make([]namedCount, 0, len(c))
	for why, n := range c {
		counts = append(counts, countOf(drops.Reason(why).String(), n))
	}
	return nonZero(counts...)
}

package vipl

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Drop is why a frame that arrived was not used. Every such frame is counted
// under exactly one reason. Its String is the reason as it appears in metrics.
type Drop = code.Drop

// The reasons.
const (
	DropShort       = code.DropShort       // shorter than its header or its own size field says
	DropFormat      = code.DropFormat      // version, kind, flags or content that no Bobnet peer sends
	DropRange       = code.DropRange       // a fragment outside its message
	DropCRC         = code.DropCRC         // the CRC does not match, or is missing where it is required
	DropStale       = code.DropStale       // for a connection that does not exist (any more)
	DropPeer        = code.DropPeer        // right connection, wrong sender
	DropEarly       = code.DropEarly       // data before the handshake was complete
	DropDuplicate   = code.DropDuplicate   // a sequence number that had come before
	DropAhead       = code.DropAhead       // too far ahead of what is expected
	DropNoReceive   = code.DropNoReceive   // no receive was posted for the message
	DropAck         = code.DropAck         // acknowledges what was never sent
	DropLate        = code.DropLate        // unreliable: belongs to a message that was given up
	DropIncomplete  = code.DropIncomplete  // unreliable: a message was given up because parts of it were lost; counts messages
	DropRDMA        = code.DropRDMA        // unreliable: an RDMA write that is not allowed
	DropFatal       = code.DropFatal       // reliable: no receive, too long, RDMA not allowed or contradictory; it ended the connection
	DropNoListener  = code.DropNoListener  // a connection request nobody listens for
	DropBacklog     = code.DropBacklog     // a connection request for which there was no room
	DropUnknown     = code.DropUnknown     // a name or echo frame that answers nothing
	DropDestination = code.DropDestination // a frame of a connection that was sent to others besides this NIC
	DropSealed      = code.DropSealed      // a sealed frame, at a NIC that has no key
)

// Drops returns all reasons.
func Drops() []Drop { return code.Drops() }

// DropCounts counts dropped frames by reason: an array. Its JSON is an object with a member
// for each reason that has occurred.
type DropCounts = code.DropCounts

// NICStats counts what a NIC has done since it was opened.
type NICStats struct {
	TxFrames    uint64      `metric:"bobnet_nic_transmit_frames_total" help:"Frames handed to the link."`
	TxBytes     uint64      `metric:"bobnet_nic_transmit_bytes_total" help:"Bytes handed to the link, headers included."`
	RxFrames    uint64      `metric:"bobnet_nic_receive_frames_total" help:"Valid frames taken from the link."`
	RxBytes     uint64      `metric:"bobnet_nic_receive_bytes_total" help:"Bytes of valid frames taken from the link, headers included."`
	TxDropped   uint64      `metric:"bobnet_nic_transmit_dropped_frames_total" help:"Frames that could not be handed to the link."`
	Unanswered  uint64      `metric:"bobnet_nic_unanswered_frames_total" help:"Frames of anybody, such as echoes and requests nobody listens for, that were not answered because so many had been."`
	TxJoined    uint64      `metric:"bobnet_nic_transmit_joined_frames_total" help:"Frames that went in the Ethernet frame of the one before them, which alone counts as handed to the link."`
	RxJoined    uint64      `metric:"bobnet_nic_receive_joined_frames_total" help:"Valid frames that came in the Ethernet frame of the one before them, which alone counts as taken from the link."`
	TxTooLong   uint64      `metric:"bobnet_nic_transmit_too_long_frames_total" help:"Frames that the link refused for good although shorter ones passed."`
	Dropped     DropCounts  `metric:"bobnet_nic_receive_dropped_frames_total"`
	CQOverruns  uint64      `metric:"bobnet_nic_completion_queue_overruns_total" help:"Completion queue entries lost because the queue was full."`
	Errors      ErrorCounts `metric:"bobnet_nic_asynchronous_errors_total"` // asynchronous errors, told or not
	ErrorsLost  uint64      // of them for which the handler was too slow
	LogsLost    uint64      `metric:"bobnet_nic_log_lines_lost_total" help:"Log lines lost because the handler of the logger was blocked."`
	Failures    uint64      `metric:"bobnet_nic_connection_failures_total" help:"Connections that this side ended because of an error."`
	Regions     int         `metric:"bobnet_nic_memory_regions" help:"Registered memory regions."`
	RegionBytes int         `metric:"bobnet_nic_memory_bytes" help:"Bytes in registered memory regions."`
	Closed      VIStats     // sum over VIs that have been closed
}

// VIStats counts what a VI has done since it was created.
type VIStats struct {
	Sends       uint64 `metric:"bobnet_vi_sends_total" help:"Send descriptors posted."`
	SendsDone   uint64 `metric:"bobnet_vi_sends_completed_total" help:"Send descriptors completed without error."`
	Receives    uint64 `metric:"bobnet_vi_receives_total" help:"Messages received."`
	TxBytes     uint64 `metric:"bobnet_vi_transmit_bytes_total" help:"Payload of completed sends."`
	RxBytes     uint64 `metric:"bobnet_vi_receive_bytes_total" help:"Payload of received messages."`
	RDMABytes   uint64 `metric:"bobnet_vi_rdma_bytes_total" help:"Bytes that the peer wrote to or read from this side's memory by RDMA."`
	TxFrames    uint64 `metric:"bobnet_vi_transmit_frames_total" help:"Frames sent, acknowledgements included."`
	RxFrames    uint64 `metric:"bobnet_vi_receive_frames_total" help:"Frames received, duplicates included."`
	Retransmits uint64 `metric:"bobnet_vi_retransmitted_frames_total" help:"Frames sent again."`
	BareAcks    uint64 `metric:"bobnet_vi_bare_acknowledgements_total" help:"Frames sent only to acknowledge."`
	// Dropped are the frames that came for this VI and were not used; the NIC
	// has counted them too.
	Dropped DropCounts `metric:"bobnet_vi_receive_dropped_frames_total"`
}

// someDrops lists the reasons that have occurred.
func someDrops(c *DropCounts) []string {
	drops := make([]namedCount, 0, len(c))
	for why, n := range c {
		drops = append(drops, countOf(Drop(why).String(), n))
	}
	return nonZero(drops...)
}

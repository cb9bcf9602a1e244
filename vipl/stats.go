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
	TxFrames, TxBytes  uint64 // handed to the link, headers included
	RxFrames, RxBytes  uint64 // valid frames from the link, headers included
	TxDropped          uint64 // frames that could not be handed to the link
	Unanswered         uint64 // frames of strangers that were not answered, because so many had been
	TxJoined, RxJoined uint64 // frames that have shared an Ethernet frame with one before them; they are not in TxFrames and RxFrames
	TxTooLong          uint64 // frames that the link refused again and again while others passed, or for 50 ms
	Dropped            DropCounts
	CQOverruns         uint64      // completion queue entries lost
	Errors             ErrorCounts // asynchronous errors, told or not
	ErrorsLost         uint64      // of them for which the handler was too slow
	LogsLost           uint64      // log lines, because the logger's handler was blocked; also those of others that share the logger
	Failures           uint64      // connections that this side ended because of an error
	Regions            int         // registered regions
	RegionBytes        int         // in them
	Closed             VIStats     // sum over VIs that have been closed
}

// VIStats counts what a VI has done since it was created.
type VIStats struct {
	Sends, SendsDone   uint64 // descriptors posted and completed well
	Receives           uint64 // messages received
	TxBytes, RxBytes   uint64 // payload of completed messages
	RDMABytes          uint64 // written here or read from here by the peer
	TxFrames, RxFrames uint64
	Retransmits        uint64 // frames sent again
	BareAcks           uint64 // frames sent only to acknowledge
	// Dropped are the frames that came for this VI and were not used; the NIC
	// has counted them too.
	Dropped DropCounts
}

func (s *VIStats) add(t *VIStats) {
	s.Sends += t.Sends
	s.SendsDone += t.SendsDone
	s.Receives += t.Receives
	s.TxBytes += t.TxBytes
	s.RxBytes += t.RxBytes
	s.RDMABytes += t.RDMABytes
	s.TxFrames += t.TxFrames
	s.RxFrames += t.RxFrames
	s.Retransmits += t.Retransmits
	s.BareAcks += t.BareAcks
	for why, n := range t.Dropped {
		s.Dropped[why] += n
	}
}

// someDrops lists the reasons that have occurred.
func someDrops(c *DropCounts) []string {
	drops := make([]namedCount, 0, len(c))
	for why, n := range c {
		drops = append(drops, countOf(Drop(why).String(), n))
	}
	return nonZero(drops...)
}

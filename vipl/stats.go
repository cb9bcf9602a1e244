package vipl

import "encoding/json"

// Drop is why a frame that arrived was not used. Every such frame is counted
// under exactly one reason.
type Drop uint8

// The reasons.
const (
	DropShort       Drop = iota // shorter than its header or its own size field says
	DropFormat                  // version, kind, flags or content that no Bobnet peer sends
	DropRange                   // a fragment outside its message
	DropCRC                     // the CRC does not match, or is missing where it is required
	DropStale                   // for a connection that does not exist (any more)
	DropPeer                    // right connection, wrong sender
	DropEarly                   // data before the handshake was complete
	DropDuplicate               // a sequence number that had come before
	DropAhead                   // too far ahead of what is expected
	DropNoReceive               // no receive was posted for the message
	DropAck                     // acknowledges what was never sent
	DropLate                    // unreliable: belongs to a message that was given up
	DropIncomplete              // unreliable: a message was given up because parts of it were lost; counts messages
	DropRDMA                    // unreliable: an RDMA write that is not allowed
	DropFatal                   // reliable: no receive, too long, RDMA not allowed or contradictory; it ended the connection
	DropNoListener              // a connection request nobody listens for
	DropBacklog                 // a connection request for which there was no room
	DropUnknown                 // a name or echo frame that answers nothing
	DropDestination             // a frame of a connection that was sent to others besides this NIC
	dropEnd
)

var dropNames = [dropEnd]string{
	"short", "format", "range", "crc", "stale", "peer", "early", "duplicate", "ahead", "no_receive",
	"ack", "late", "incomplete", "rdma", "fatal", "no_listener", "backlog", "unknown", "destination",
}

// String returns the reason as it appears in metrics.
func (d Drop) String() string {
	if d < dropEnd {
		return dropNames[d]
	}
	return "invalid"
}

// Drops returns all reasons.
func Drops() []Drop {
	all := make([]Drop, dropEnd)
	for i := range all {
		all[i] = Drop(i)
	}
	return all
}

// DropCounts counts dropped frames by reason.
type DropCounts [dropEnd]uint64

// MarshalJSON returns an object with a member for each reason that has occurred.
func (c DropCounts) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{}
	for why, n := range c {
		if n > 0 {
			by[Drop(why).String()] = n
		}
	}
	return json.Marshal(by)
}

// drop counts a frame that was for no VI in particular.
func (n *NIC) drop(why Drop) { n.stats.Dropped[why]++ }

// drop counts a frame that was for v.
func (v *VI) drop(why Drop) {
	v.nic.drop(why)
	v.stats.Dropped[why]++
}

// NICStats counts what a NIC has done since it was opened.
type NICStats struct {
	TxFrames, TxBytes uint64 // handed to the link, headers included
	RxFrames, RxBytes uint64 // valid frames from the link, headers included
	TxDropped         uint64 // frames that could not be handed to the link
	Unanswered        uint64 // frames of strangers that were not answered, because so many had been
	TxTooLong         uint64 // frames that the link refused again and again while others passed, or for 50 ms
	Dropped           DropCounts
	CQOverruns        uint64      // completion queue entries lost
	Errors            ErrorCounts // asynchronous errors, told or not
	ErrorsLost        uint64      // of them for which the handler was too slow
	LogsLost          uint64      // log lines, because the logger's handler was blocked; also those of others that share the logger
	Failures          uint64      // connections that this side ended because of an error
	Regions           int         // registered regions
	RegionBytes       int         // in them
	Closed            VIStats     // sum over VIs that have been closed
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
	drops := make([]counted, 0, len(c))
	for why, n := range c {
		drops = append(drops, counted{Drop(why).String(), n})
	}
	return some(drops...)
}

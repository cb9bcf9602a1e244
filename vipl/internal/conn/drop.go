package conn

import "encoding/json"

// Drop is why a frame that arrived was not used; package vipl says what each reason means.
type Drop uint8

// The reasons.
const (
	DropShort Drop = iota
	DropFormat
	DropRange
	DropCRC
	DropStale
	DropPeer
	DropEarly
	DropDuplicate
	DropAhead
	DropNoReceive
	DropAck
	DropLate
	DropIncomplete
	DropRDMA
	DropFatal
	DropNoListener
	DropBacklog
	DropUnknown
	DropDestination
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

// Drop counts a frame that was for no connection in particular.
func (a *Adapter) Drop(why Drop) { a.Stats.Dropped[why]++ }

// Drop counts a frame that was for c.
func (c *Conn) Drop(why Drop) {
	c.a.Drop(why)
	c.Stats.Dropped[why]++
}

// Lost counts a frame of c's that the adapter has counted.
func (c *Conn) Lost(why Drop) { c.Stats.Dropped[why]++ }

// Stats counts what a connection's VI has done since it was created.
type Stats struct {
	Sends, SendsDone   uint64 // descriptors posted and completed well
	Receives           uint64 // messages received
	TxBytes, RxBytes   uint64 // payload of completed messages
	RDMABytes          uint64 // written here or read from here by the peer
	TxFrames, RxFrames uint64
	Retransmits        uint64 // frames sent again
	BareAcks           uint64 // frames sent only to acknowledge
	// Dropped are the frames that came for it and were not used; the adapter
	// has counted them too.
	Dropped DropCounts
}

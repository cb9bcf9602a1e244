package code

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
	DropSealed
	dropEnd
)

var dropNames = [dropEnd]string{
	"short", "format", "range", "crc", "stale", "peer", "early", "duplicate", "ahead", "no_receive",
	"ack", "late", "incomplete", "rdma", "fatal", "no_listener", "backlog", "unknown", "destination", "sealed",
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

// UnmarshalJSON reads what MarshalJSON writes. Reasons that it does not know are left out.
func (c *DropCounts) UnmarshalJSON(text []byte) error {
	by := map[string]uint64{}
	err := json.Unmarshal(text, &by)
	for why := range c {
		c[why] = by[Drop(why).String()]
	}
	return err
}

// Package drops defines the reasons why received frames are dropped, and counts frames by reason. Packages vipl
// and metrics report them by name.
package drops

import "encoding/json"

// Reason is why a received frame was dropped. Every dropped frame is counted under exactly
// one reason.
type Reason uint8

// The reasons.
const (
	Short       Reason = iota // shorter than its header or its own size field says
	Format                    // version, kind, flags or content that no Bobnet peer sends
	Range                     // a fragment outside its message
	CRC                       // the CRC does not match, or is missing where it is required
	Stale                     // a frame for a connection that does not exist, or has ended
	Peer                      // right connection, wrong sender
	Early                     // data before the handshake was complete
	Duplicate                 // a sequence number that was received before
	Ahead                     // too far ahead of the expected sequence number
	NoReceive                 // no receive was posted for the message
	Ack                       // acknowledges frames that were never sent
	Late                      // unreliable: part of a message that was abandoned
	Incomplete                // unreliable: a message was abandoned because parts of it were lost; counts messages
	RDMA                      // unreliable: an RDMA write that is not allowed
	Fatal                     // reliable: no receive, too long, RDMA not allowed, or inconsistent; it ended the connection
	NoListener                // a connection request without a listener
	Backlog                   // a connection request that found the backlog full
	Unknown                   // a name or echo frame that answers no query
	Destination               // a frame of a connection that was not addressed to this NIC alone
	Sealed                    // an encrypted frame at a NIC without a key
	end
)

var names = [end]string{
	"short", "format", "range", "crc", "stale", "peer", "early", "duplicate", "ahead", "no_receive",
	"ack", "late", "incomplete", "rdma", "fatal", "no_listener", "backlog", "unknown", "destination", "sealed",
}

// String returns the reason as it appears in metrics.
func (r Reason) String() string {
	if r < end {
		return names[r]
	}
	return "invalid"
}

// All returns all reasons.
func All() []Reason {
	all := make([]Reason, end)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// Counts counts dropped frames by reason.
type Counts [end]uint64

// Of returns the count of a reason by its name, 0 for one that does not exist.
func (c *Counts) Of(reason string) uint64 {
	for why, n := range c {
		if names[why] == reason {
			return n
		}
	}
	return 0
}

// MarshalJSON returns an object with a member for each reason that has occurred.
func (c Counts) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{}
	for why, n := range c {
		if n > 0 {
			by[Reason(why).String()] = n
		}
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads what MarshalJSON writes. Reasons that it does not know are left out.
func (c *Counts) UnmarshalJSON(text []byte) error {
	by := map[string]uint64{}
	err := json.Unmarshal(text, &by)
	for why := range c {
		c[why] = by[Reason(why).String()]
	}
	return err
}

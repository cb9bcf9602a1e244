// Package drops has the reasons why a received frame was not used, and counts by reason. Packages vipl
// and metrics show them by name.
package drops

import "encoding/json"

// Reason is why a frame that arrived was not used. Every such frame is counted under exactly
// one reason. Its String is the reason as it appears in metrics.
type Reason uint8

// The reasons.
const (
	Short       Reason = iota // shorter than its header or its own size field says
	Format                    // version, kind, flags or content that no Bobnet peer sends
	Range                     // a fragment outside its message
	CRC                       // the CRC does not match, or is missing where it is required
	Stale                     // for a connection that does not exist (any more)
	Peer                      // right connection, wrong sender
	Early                     // data before the handshake was complete
	Duplicate                 // a sequence number that had come before
	Ahead                     // too far ahead of what is expected
	NoReceive                 // no receive was posted for the message
	Ack                       // acknowledges what was never sent
	Late                      // unreliable: belongs to a message that was given up
	Incomplete                // unreliable: a message was given up because parts of it were lost; counts messages
	RDMA                      // unreliable: an RDMA write that is not allowed
	Fatal                     // reliable: no receive, too long, RDMA not allowed or contradictory; it ended the connection
	NoListener                // a connection request nobody listens for
	Backlog                   // a connection request for which there was no room
	Unknown                   // a name or echo frame that answers nothing
	Destination               // a frame of a connection that was sent to others besides this NIC
	Sealed                    // a sealed frame, at a NIC that has no key
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

package wire

import "strconv"

// Reason is why a message returned to its sender (AM2 reference, section 7).
type Reason uint8

// The reasons, in AM-II's order.
const (
	ReasonBadArgs       Reason = 1 + iota // EBADARGS: invalid arguments to request or reply
	ReasonBadEntry                        // EBADENTRY: the translation index is not bound
	ReasonBadTag                          // EBADTAG: the sender's tag did not match
	ReasonBadHandler                      // EBADHANDLER: no such handler at the receiver
	ReasonBadOffset                       // EBADSEGOFF: offset into the segment invalid
	ReasonBadLength                       // EBADLENGTH: the transfer goes beyond the segment's end
	ReasonBadEndpoint                     // EBADENDPOINT: the destination endpoint does not exist
	ReasonCongestion                      // ECONGESTION: the destination has no room for another sender
	ReasonUnreachable                     // EUNREACHABLE: the destination does not answer
	ReasonReplyRejected                   // EREPLYREJECTED: the destination refused a reply
	ReasonEnd
)

var reasons = [ReasonEnd]string{
	"none", "bad arguments", "bad entry", "bad tag", "bad handler", "bad segment offset", "bad length",
	"bad endpoint", "congestion", "unreachable", "reply rejected",
}

func (r Reason) String() string {
	if r < ReasonEnd {
		return reasons[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// Reasons returns all reasons.
func Reasons() []Reason {
	var all []Reason
	for r := ReasonBadArgs; r < ReasonEnd; r++ {
		all = append(all, r)
	}
	return all
}

// ReasonNamed is the inverse of String. It returns 0 if no reason has that
// name.
func ReasonNamed(text string) Reason {
	for r := ReasonBadArgs; r < ReasonEnd; r++ {
		if reasons[r] == text {
			return r
		}
	}
	return 0
}

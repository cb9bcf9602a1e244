package endpoint

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Stats are a node's counters since Open.
type Stats struct {
	Sent        uint64 `metric:"bobnet_am_requests_sent_total" help:"Requests sent." text:"requests sent"`
	Requests    uint64 `metric:"bobnet_am_request_handlers_total" help:"Request handlers run." text:"request handlers run"`
	Replies     uint64 `metric:"bobnet_am_reply_handlers_total" help:"Reply handlers run." text:"reply handlers run"`
	Stalls      uint64 `metric:"bobnet_am_credit_stalls_total" help:"Checks for a credit that found none." text:"looks for a credit in vain"`
	Returns     uint64 `metric:"bobnet_am_refusals_heard_total" help:"Messages refused by peers." text:"refusals heard"`
	Broken      uint64 `metric:"bobnet_am_broken_connections_total" help:"Connections of endpoints that broke." text:"broken connections"`
	Strays      uint64 `metric:"bobnet_am_stray_messages_total" help:"Unexpected or malformed messages dropped and connection requests refused." text:"strays"`
	Violations  uint64 `metric:"bobnet_am_violations_total" help:"Connections ended because the client violated the protocol." text:"violations"`
	Panics      uint64 `metric:"bobnet_am_handler_panics_total" help:"Panics of handlers." text:"panics"`
	LostReplies uint64 `metric:"bobnet_am_lost_replies_total" help:"Replies returned to endpoints without a handler for returned messages." text:"replies that came back to nobody"`
	// StallTime is the total time that requests have waited for a credit. A request's time is added
	// when its call returns.
	StallTime time.Duration `metric:"bobnet_am_credit_seconds_total" help:"Time spent waiting for credits." text:"time in waits for credits"`
	// Refused counts messages that this node refused, and Returned counts messages that returned to
	// its endpoints, by Reason.
	Refused  [wire.ReasonEnd]uint64 `metric:"bobnet_am_refused_messages_total"`
	Returned [wire.ReasonEnd]uint64 `metric:"bobnet_am_returned_messages_total"`
}

// Stats returns a copy of the counters.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

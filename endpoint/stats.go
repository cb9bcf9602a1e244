package endpoint

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Stats are a node's counters since Open.
type Stats struct {
	Sent        uint64 // requests sent
	Requests    uint64 // request handlers run
	Replies     uint64 // reply handlers run
	Stalls      uint64 // looks for a credit that found none
	Returns     uint64 // refusals heard from peers
	Broken      uint64 // connections that broke
	Strays      uint64 // messages dropped, and requests for connections refused: they belong to nothing, make no sense, or had to wait when their connection ended
	Violations  uint64 // connections ended: the client goes beyond its credits
	Panics      uint64 // of handlers
	LostReplies uint64 // replies that came back to endpoints without a ReturnHandler
	// StallTime is how long requests have waited for a credit. The time of each is added
	// when its call returns.
	StallTime time.Duration
	// Refused counts the messages that were refused here, Returned those that
	// came back to an endpoint here, by Reason.
	Refused  [wire.ReasonEnd]uint64
	Returned [wire.ReasonEnd]uint64
}

// Stats returns a copy of the counters.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

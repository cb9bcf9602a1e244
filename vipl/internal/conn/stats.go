package conn

import "github.com/bobnet-go/bobnet/vipl/internal/code"

// Drop counts a frame that was for no connection in particular.
func (sh *Shared) Drop(why code.Drop) { sh.stats.Dropped[why]++ }

// Drop counts a frame that was for c.
func (c *Conn) Drop(why code.Drop) {
	c.shared.Drop(why)
	c.Stats.Dropped[why]++
}

// Lost counts a frame of c's that the NIC has counted.
func (c *Conn) Lost(why code.Drop) { c.Stats.Dropped[why]++ }

// Stats counts what a connection's VI has done since it was created.
type Stats struct {
	Sends, SendsDone   uint64 // descriptors posted and completed well
	Receives           uint64 // messages received
	TxBytes, RxBytes   uint64 // payload of completed messages
	RDMABytes          uint64 // written here or read from here by the peer
	TxFrames, RxFrames uint64
	Retransmits        uint64 // frames sent again
	BareAcks           uint64 // frames sent only to acknowledge
	// Dropped are the frames that came for it and were not used; the NIC
	// has counted them too.
	Dropped code.DropCounts
}

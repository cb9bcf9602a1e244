package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
)

// Drop is why a frame that arrived was not used. Every such frame is counted
// under exactly one reason.
type Drop uint8

// The reasons.
const (
	DropShort      Drop = iota // shorter than its header or its own size field says
	DropFormat                 // version, kind, flags or content that no Bobnet peer sends
	DropRange                  // a fragment outside its message
	DropCRC                    // the CRC does not match, or is missing where it is required
	DropStale                  // for a connection that does not exist (any more)
	DropPeer                   // right connection, wrong sender
	DropEarly                  // data before the handshake was complete
	DropDuplicate              // a sequence number that had come before
	DropAhead                  // too far ahead of what is expected
	DropNoReceive              // no receive was posted for the message
	DropAck                    // acknowledges what was never sent
	DropLate                   // unreliable: belongs to a message that was given up
	DropIncomplete             // unreliable: a message was given up because parts of it were lost; counts messages
	DropRDMA                   // unreliable: an RDMA write that is not allowed
	DropFatal                  // reliable: no receive, too long, RDMA not allowed or contradictory; it ended the connection
	DropNoListener             // a connection request nobody listens for
	DropBacklog                // a connection request for which there was no room
	DropUnknown                // a name or echo frame that answers nothing
	dropEnd
)

var dropNames = [dropEnd]string{
	"short", "format", "range", "crc", "stale", "peer", "early", "duplicate", "ahead", "no_receive",
	"ack", "late", "incomplete", "rdma", "fatal", "no_listener", "backlog", "unknown",
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

// NICStats counts what a NIC has done since it was opened.
type NICStats struct {
	TxFrames, TxBytes uint64 // handed to the link, headers included
	RxFrames, RxBytes uint64 // valid frames from the link, headers included
	TxDropped         uint64 // frames that could not be handed to the link
	Dropped           [dropEnd]uint64
	CQOverruns        uint64  // completion queue entries lost
	Failures          uint64  // connections that this side ended because of an error
	Regions           int     // registered regions
	Closed            VIStats // sum over VIs that have been closed
}

func (s *NICStats) drop(why Drop) { s.Dropped[why]++ }

// VIStats counts what a VI has done since it was created.
type VIStats struct {
	Sends, SendsDone   uint64 // descriptors posted and completed well
	Receives           uint64 // messages received
	TxBytes, RxBytes   uint64 // payload of completed messages
	RDMABytes          uint64 // written here by the peer
	TxFrames, RxFrames uint64
	Retransmits        uint64 // frames sent again
	BareAcks           uint64 // frames sent only to acknowledge
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
}

// VISnapshot is a VI's state at one moment.
type VISnapshot struct {
	VIStats
	Local, Remote ethertype.Addr
	State         State
	Level         reliability.Level
	SendQueue     int   // descriptors on the send queue
	RecvQueue     int   // descriptors on the receive queue
	LastHeard     int64 // ns since the peer was last heard; 0 if not connected
	Sender        reliability.SenderStats
}

// Add adds t's counters and queue lengths to s, for sums over many VIs.
func (s *VISnapshot) Add(t *VISnapshot) {
	s.VIStats.add(&t.VIStats)
	s.SendQueue += t.SendQueue
	s.RecvQueue += t.RecvQueue
	s.Sender.InFlight += t.Sender.InFlight
	s.Sender.Window += t.Sender.Window
}

// Snapshot is a NIC's state at one moment.
type Snapshot struct {
	NICStats
	Attributes NICAttributes
	Link       transport.Stats
	VIs        []VISnapshot
}

// Snapshot returns a copy of every counter of the NIC, its link and its VIs.
func (n *NIC) Snapshot() Snapshot {
	s := Snapshot{Attributes: n.Query(), Link: n.link.Stats()}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.catchUp()
	s.NICStats = n.stats
	for _, v := range n.vis {
		if v != nil {
			s.VIs = append(s.VIs, v.snapshot())
		}
	}
	return s
}

// Snapshot returns a copy of the VI's counters and state.
func (v *VI) Snapshot() VISnapshot {
	v.nic.mu.Lock()
	defer v.nic.mu.Unlock()
	v.nic.catchUp()
	return v.snapshot()
}

func (v *VI) snapshot() VISnapshot {
	s := VISnapshot{VIStats: v.stats, Local: v.Local(), Remote: v.remote, State: v.state, Level: v.attr.Reliability,
		SendQueue: v.sq.len(), RecvQueue: v.rq.len()}
	if v.state == StateConnected {
		s.LastHeard = max(v.nic.link.Now()-v.heard, 0)
		if v.reliable {
			s.Sender = v.tx.Stats()
		}
	}
	return s
}

package conn

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// pendingSend describes the posted send i.
func (c *Conn) pendingSend(i ethertype.Seq, now int64) PendingSend {
	d := c.SQ.at(i)
	s := PendingSend{Op: d.Op, Size: d.total}
	begun := i.Less(c.tx.cursor.next)
	if begun {
		s.Sent = d.total
	} else if i == c.tx.cursor.next && c.tx.cursor.offset > 0 {
		s.Sent, begun = c.tx.cursor.offset, true
	}
	if d.Op == code.OpRDMARead {
		s.Sent = 0
		if begun {
			s.Sent = d.got
		}
	}
	if !begun || c.State != code.StateConnected {
		return s
	}
	s.Msg = uint32(d.msg)
	if !c.Reliable {
		return s
	}
	seq, end := d.first, c.tx.sender.NextSeq()
	if i.Less(c.tx.cursor.next) {
		end = d.last + 1
	}
	if seq.Less(c.tx.sender.Una()) {
		seq = c.tx.sender.Una()
	}
	for ; seq.Less(end); seq++ {
		if first, last, acked := c.tx.sender.Times(seq); !acked {
			s.Age, s.Again = max(time.Duration(now-first), 1), max(time.Duration(now-last), 1)
			break
		}
	}
	return s
}

// PendingSends describes the oldest incomplete sends, at most most of them.
func (c *Conn) PendingSends(most int, now int64) (all []PendingSend) {
	for i := c.SQ.done; i != c.SQ.tail && len(all) < most; i++ {
		all = append(all, c.pendingSend(i, now))
	}
	return all
}

// Silence returns the nanoseconds since the peer's last frame, and the number of keep-alive probes
// since then.
func (c *Conn) Silence(now int64) (ns int64, probes int) { return max(now-c.heard, 0), c.probes }

// SenderStats returns the counters and estimates of the sender.
func (c *Conn) SenderStats() reliability.SenderStats { return c.tx.sender.Stats() }

// Arriving describes the oldest partly received message.
func (c *Conn) Arriving() *Arriving {
	for i := range ethertype.Seq(min(c.RQ.Pending(), lookMax)) { // few messages begin out of order
		if d := c.RQ.at(c.RQ.done + i); d.begun {
			return &Arriving{Size: d.length, Got: d.got}
		}
	}
	return nil
}

// PendingSend is a posted send descriptor that is incomplete.
type PendingSend struct {
	Op   code.Op
	Msg  uint32 // message number in its frames; 0 before the first one
	Size uint32 // bytes
	Sent uint32 // bytes sent at least once; for an RDMA read, bytes received
	// Age is the time since the first transmission of its oldest unacknowledged frame, Again the
	// time since the last one. Both are 0 if none of its frames is unacknowledged.
	Age, Again time.Duration
}

// Arriving is a partly received message.
type Arriving struct {
	Size uint32 // bytes
	Got  uint32 // bytes received
}

// lookMax is the number of receives that Arriving examines.
const lookMax = 32

// Drop counts a dropped frame that belongs to no connection.
func (sh *Shared) Drop(why drops.Reason) { sh.stats.Dropped[why]++ }

// Drop counts a dropped frame of c.
func (c *Conn) Drop(why drops.Reason) {
	c.shared.Drop(why)
	c.Stats.Dropped[why]++
}

// Lost counts a frame of c that the NIC has already counted.
func (c *Conn) Lost(why drops.Reason) { c.Stats.Dropped[why]++ }

// Stats counts the operations of a connection's VI since its creation.
type Stats struct {
	Sends, SendsDone   uint64 // descriptors posted; completed without error
	Receives           uint64 // messages received
	TxBytes, RxBytes   uint64 // payload bytes of completed messages
	RDMABytes          uint64 // bytes written here or read from here by the peer
	TxFrames, RxFrames uint64
	Retransmits        uint64 // retransmitted frames
	BareAcks           uint64 // separate acknowledgements
	LongAsks           uint64 // requests to the peer to receive long frames
	LongStops          uint64 // times that the path stopped carrying long frames
	// Dropped are the frames for this VI that were dropped. The NIC also counts them.
	Dropped drops.Counts
}

package conn

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// pendingSend describes send i, which is posted.
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

// PendingSends describes the oldest sends that have not completed, most of them at the most.
func (c *Conn) PendingSends(most int, now int64) (all []PendingSend) {
	for i := c.SQ.done; i != c.SQ.tail && len(all) < most; i++ {
		all = append(all, c.pendingSend(i, now))
	}
	return all
}

// Silence returns for how long the peer has not been heard, in nanoseconds, and how many
// keepalive probes have gone since then.
func (c *Conn) Silence(now int64) (ns int64, probes int) { return max(now-c.heard, 0), c.probes }

// SenderStats returns what the sender's machine counts and estimates.
func (c *Conn) SenderStats() reliability.SenderStats { return c.tx.sender.Stats() }

// Arriving describes the oldest message that has begun to arrive.
func (c *Conn) Arriving() *Arriving {
	for i := range ethertype.Seq(min(c.RQ.Pending(), lookMax)) { // few are begun out of order
		if d := c.RQ.at(c.RQ.done + i); d.begun {
			return &Arriving{Size: d.length, Got: d.got}
		}
	}
	return nil
}

// PendingSend is a send descriptor that has been posted and has not completed.
type PendingSend struct {
	Op   code.Op
	Msg  uint32 // message number, as its frames carry it; 0 as long as none has been sent
	Size uint32 // bytes
	Sent uint32 // bytes of it that have been sent, once at least; of an RDMA read, bytes that have come
	// Age is the time since its oldest unacknowledged frame was sent first,
	// Again the time since that frame was sent last. Both are 0 when no frame
	// of it is unacknowledged.
	Age, Again time.Duration
}

// Arriving is a message of which a part has come.
type Arriving struct {
	Size uint32 // bytes
	Got  uint32 // bytes that have come
}

// lookMax is how many receives arriving looks at.
const lookMax = 32

// Drop counts a frame that was for no connection in particular.
func (sh *Shared) Drop(why drops.Reason) { sh.stats.Dropped[why]++ }

// Drop counts a frame that was for c.
func (c *Conn) Drop(why drops.Reason) {
	c.shared.Drop(why)
	c.Stats.Dropped[why]++
}

// Lost counts a frame of c's that the NIC has counted.
func (c *Conn) Lost(why drops.Reason) { c.Stats.Dropped[why]++ }

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
	Dropped drops.Counts
}

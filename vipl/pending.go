package vipl

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// pendingSend describes send i, which is posted.
func (v *VI) pendingSend(i ethertype.Seq, now int64) PendingSend {
	d := v.sq.at(i)
	s := PendingSend{Op: d.Op, Size: d.total}
	begun := i.Less(v.cursor.next)
	if begun {
		s.Sent = d.total
	} else if i == v.cursor.next && v.cursor.offset > 0 {
		s.Sent, begun = v.cursor.offset, true
	}
	if d.Op == OpRDMARead {
		s.Sent = 0
		if begun {
			s.Sent = d.got
		}
	}
	if !begun || v.state != StateConnected {
		return s
	}
	s.Msg = uint32(d.msg)
	if !v.reliable {
		return s
	}
	seq, end := d.first, v.tx.NextSeq()
	if i.Less(v.cursor.next) {
		end = d.last + 1
	}
	if seq.Less(v.tx.Una()) {
		seq = v.tx.Una()
	}
	for ; seq.Less(end); seq++ {
		if first, last, acked := v.tx.Times(seq); !acked {
			s.Age, s.Again = max(time.Duration(now-first), 1), max(time.Duration(now-last), 1)
			break
		}
	}
	return s
}

// arriving describes the oldest message that has begun to arrive.
func (v *VI) arriving() *Arriving {
	for i := range ethertype.Seq(min(v.rq.tail.Sub(v.rq.done), PendingMax)) { // few are begun out of order
		if d := v.rq.at(v.rq.done + i); d.begun {
			return &Arriving{Size: d.length, Got: d.got}
		}
	}
	return nil
}

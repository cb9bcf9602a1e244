package conn

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// readTable is the requester's side of RDMA reads. Reads are numbered in the
// order in which they are sent, from 0 in each connection; the numbers wrap.
//
//	done..sent-1  requested, and not all bytes have been placed
//
// A request and the fragments of its answer are sequenced frames like all
// others, each in its sender's stream.
type readTable struct {
	c          *Conn
	sent, done ethertype.Seq
	limit      int             // reads that the peer serves at a time
	pending    []ethertype.Seq // position of each read on the send queue; allocated for the first one
}

// outstanding reports whether a read is unanswered.
func (t *readTable) outstanding() bool { return t.sent != t.done }

func (t *readTable) slot(m ethertype.Seq) *ethertype.Seq {
	return &t.pending[uint32(m)&uint32(len(t.pending)-1)]
}

// tableSize returns the size of a table of depth entries that is indexed by
// numbers which wrap.
func tableSize(depth int) int { return 1 << bits.Len(uint(depth-1)) }

// waits reports whether the descriptor at the cursor must wait: it has a fence and a read is
// unanswered, or it exceeds the number of reads that the peer serves at a time.
func (t *readTable) waits() bool {
	if !t.outstanding() || t.c.tx.cursor.offset > 0 {
		return false
	}
	d := t.c.SQ.at(t.c.tx.cursor.next)
	return d.Fence || d.Op == code.OpRDMARead && t.sent.Sub(t.done) >= t.limit
}

// cutRead removes the request of the read at the cursor from the send queue.
func (t *readTable) cutRead(d *Descriptor) reliability.Sent {
	next := &t.c.tx.cursor
	if len(t.pending) < t.limit {
		t.pending = make([]ethertype.Seq, tableSize(t.limit))
	}
	*t.slot(t.sent) = next.next
	d.txState = txState{msg: t.sent, first: t.c.tx.sender.NextSeq(), last: t.c.tx.sender.NextSeq()}
	d.rxState = rxState{}
	t.sent++
	f := reliability.Sent{First: next.next, Count: 1}
	next.next++
	return f
}

// readFor returns the descriptor of read m, or nil if that read is not open.
func (t *readTable) readFor(m ethertype.Seq) *Descriptor {
	if t.done.LessEq(m) && m.Less(t.sent) {
		return t.c.SQ.at(*t.slot(m))
	}
	return nil
}

// placeRead copies a fragment of an answer to the descriptor of its read. It refuses frames that
// are not answers, and answers to requests that the peer cannot have received.
func (t *readTable) placeRead(h *ethertype.Header, payload []byte) (outcome, code.Reason) {
	d := t.readFor(h.Msg)
	if d == nil || !d.last.Less(t.c.tx.sender.Una()) || h.Length != d.total || len(payload) > int(d.total-d.got) {
		return fatal, code.ReasonProtocol
	}
	if o := t.c.copyIn(d.Segs(), h.Offset, payload); o != placed {
		return o, code.ReasonAltered
	}
	d.recordFragment(h, len(payload))
	return placed, 0
}

// completeReads completes, in order, the reads whose answers are complete: all frames of the
// answer, and all before them, have arrived. The cumulative acknowledgement of the next request
// then covers them, so that the peer never finds its table full.
func (t *readTable) completeReads() {
	was, next := t.done, t.c.rx.receiver.Next()
	for t.outstanding() {
		d := t.c.SQ.at(*t.slot(t.done))
		if !d.ended || !d.final.Less(next) {
			break
		}
		if d.got != d.total {
			t.c.fail(code.ReasonProtocol)
			return
		}
		t.done++
	}
	if t.done != was {
		t.c.tx.completeAcked()
	}
}

// reset prepares for a new connection to a peer that serves limit reads at a time.
func (t *readTable) reset(limit int) {
	*t = readTable{c: t.c, limit: limit, pending: t.pending}
}

// unanswered reports whether d is a read whose answer is incomplete.
func (t *readTable) unanswered(d *Descriptor) bool {
	return d.Op == code.OpRDMARead && t.done.LessEq(d.msg)
}

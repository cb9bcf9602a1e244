package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
)

// queue is one work queue of a VI. Descriptors are numbered in the order they
// are posted; the numbers run on for the life of a connection and wrap.
//
//	head <= done <= tail
//	head..done-1  completed, waiting to be taken by a Done call
//	done..tail-1  posted
//
// The array grows by doubling up to the VI's QueueDepth, so that an idle VI
// holds none.
type queue struct {
	ring             []*Descriptor // length is 0 or a power of two
	head, done, tail ethertype.Seq
	depth            int
	cq               *CQ
	listed           int // entries that cq has
	recv             bool
	gate             progress.Gate
	handlers         handlers
}

// queue returns v's receive queue, or its send queue.
func (v *VI) queue(recv bool) *queue {
	if recv {
		return &v.rq
	}
	return &v.sq
}

func (q *queue) at(n ethertype.Seq) *Descriptor { return q.ring[uint32(n)&uint32(len(q.ring)-1)] }

func (q *queue) len() int { return q.tail.Sub(q.head) }

// posted reports whether number n is posted and not yet completed.
func (q *queue) posted(n ethertype.Seq) bool { return q.done.LessEq(n) && n.Less(q.tail) }

// push appends d, and returns false when the queue is full.
func (q *queue) push(d *Descriptor) bool {
	if q.len() >= q.depth {
		return false
	}
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.ring[uint32(q.tail)&uint32(len(q.ring)-1)] = d
	q.tail++
	return true
}

func (q *queue) grow() {
	ring := make([]*Descriptor, max(8, 2*len(q.ring)))
	for n := q.head; n != q.tail; n++ {
		ring[uint32(n)&uint32(len(ring)-1)] = q.at(n)
	}
	q.ring = ring
}

// take removes the oldest completed descriptor; nil when there is none.
func (q *queue) take() *Descriptor {
	if q.head == q.done {
		return nil
	}
	slot := uint32(q.head) & uint32(len(q.ring)-1)
	d := q.ring[slot]
	q.ring[slot] = nil
	q.head++
	d.vi = nil
	return d
}

// complete finishes the oldest posted descriptor with the given status bits
// and tells whoever waits.
func (q *queue) complete(v *VI, status Status, length uint32) {
	d := q.at(q.done)
	q.done++
	d.Status = status | StatusDone
	d.Length = length
	if total, ok := v.nic.mem.Release(d.Segs); !ok || total != uint64(d.total) {
		d.Status |= StatusProtectionError
		v.nic.raise(CodeCompProt, v, d, status, errAltered)
	}
	if q.cq != nil {
		q.cq.push(v, q.recv)
	}
	if q.handlers.Len() > 0 {
		q.tell(v)
	}
	q.gate.Open(&v.nic.eng)
}

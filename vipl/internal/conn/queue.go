package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Queue is one work queue of a connection. Descriptors are numbered in the order they
// are posted; the numbers run on for the life of a connection and wrap.
//
//	head <= done <= tail
//	head..done-1  completed, waiting to be taken by a Done call
//	done..tail-1  posted
//
// The array grows by doubling up to its depth, so that an idle connection
// holds none.
type Queue struct {
	ring             []*Descriptor // length is 0 or a power of two
	head, done, tail ethertype.Seq
	depth            int
	cq               *Ring
	listed           int // entries that cq has
	recv             bool
	Gate             progress.Gate
	Handlers         int // handlers that wait for completions
}

// Queue returns c's receive queue, or its send queue.
func (c *Conn) Queue(recv bool) *Queue {
	if recv {
		return &c.RQ
	}
	return &c.SQ
}

func (q *Queue) at(n ethertype.Seq) *Descriptor { return q.ring[uint32(n)&uint32(len(q.ring)-1)] }

// Len returns how many descriptors are on the queue.
func (q *Queue) Len() int { return q.tail.Sub(q.head) }

// Untaken returns how many of these have completed.
func (q *Queue) Untaken() int { return q.done.Sub(q.head) }

// Pending returns how many of these have not.
func (q *Queue) Pending() int { return q.tail.Sub(q.done) }

// Waits reports whether the oldest descriptor on the queue has not completed.
func (q *Queue) Waits() bool { return q.head == q.done && q.head != q.tail }

// posted reports whether number n is posted and not yet completed.
func (q *Queue) posted(n ethertype.Seq) bool { return q.done.LessEq(n) && n.Less(q.tail) }

// enqueue appends d. It returns false if the queue is full.
func (q *Queue) enqueue(d *Descriptor) bool {
	if q.Len() >= q.depth {
		return false
	}
	if q.Len() == len(q.ring) {
		q.grow()
	}
	q.ring[uint32(q.tail)&uint32(len(q.ring)-1)] = d
	d.posted = true
	q.tail++
	return true
}

func (q *Queue) grow() {
	ring := make([]*Descriptor, max(8, 2*len(q.ring)))
	for n := q.head; n != q.tail; n++ {
		ring[uint32(n)&uint32(len(ring)-1)] = q.at(n)
	}
	q.ring = ring
}

// Dequeue removes the oldest completed descriptor, or returns nil if there is none.
func (q *Queue) Dequeue() *Descriptor {
	if q.head == q.done {
		return nil
	}
	slot := uint32(q.head) & uint32(len(q.ring)-1)
	d := q.ring[slot]
	q.ring[slot] = nil
	q.head++
	d.posted = false
	return d
}

// complete completes the oldest posted descriptor with the given status bits, and notifies the
// waiting goroutines or handlers.
func (q *Queue) complete(c *Conn, status code.Status, length uint32) {
	q.completeOldest(c, q.at(q.done), status, length)
}

// completeOldest is complete for a caller that has the oldest posted descriptor.
func (q *Queue) completeOldest(c *Conn, d *Descriptor, status code.Status, length uint32) {
	q.done++
	d.Status = status | code.StatusDone
	d.Length = length
	if total, ok := c.shared.Mem.Release(d.Segs()); !ok || total != uint64(d.total) {
		d.Status |= code.StatusProtectionError
		c.Owner.Raise(FaultAltered, d, status, code.ErrAltered)
	}
	if q.cq != nil {
		q.cq.enqueue(c, q.recv)
	}
	if q.Handlers > 0 {
		c.Owner.Notify(q.recv)
	}
	q.Gate.Open(c.shared.eng)
}

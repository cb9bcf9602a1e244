package sim

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// What a frame takes on the wire besides its own bytes: preamble, check
// sequence and the gap between frames; and the least that it takes.
const (
	wireOverhead = 8 + 4 + 12
	wireLeast    = 60
)

// wireTime returns how long n bytes of frame occupy a line of so many bits per
// second, in nanoseconds; a line of 0 bits per second is infinitely fast.
func wireTime(n int, bandwidth int64) int64 {
	if bandwidth == 0 {
		return 0
	}
	bits := int64(max(n, wireLeast)+wireOverhead) * 8
	return (bits*int64(time.Second) + bandwidth - 1) / bandwidth
}

// Overflow cannot happen in wireTime: the largest frame times 8e9 is 5e14.
const _ = int64(ethertype.MaxFrame+wireOverhead) * 8 * int64(time.Second)

// line is a queue of frames with a serial line behind it: an uplink, or an
// output of the switch. It only tells the time at which each frame has left.
type line struct {
	bandwidth int64 // bits per second, 0 is infinite
	limit     int   // most frames that wait or are being sent
	free      int64 // when the last frame will have left
	leaves    fifo[int64]
}

// admit queues a frame of n bytes and returns when its last bit will have
// left, or false when the queue is full.
func (l *line) admit(now int64, n int) (leaves int64, ok bool) {
	if l.bandwidth == 0 {
		return now, true
	}
	for l.leaves.len() > 0 && l.leaves.front() <= now {
		l.leaves.pop()
	}
	if l.leaves.len() >= l.limit {
		return 0, false
	}
	l.free = max(l.free, now) + wireTime(n, l.bandwidth)
	l.leaves.push(l.free)
	return l.free, true
}

// fifo is a queue in a ring that grows by doubling.
type fifo[T any] struct {
	ring []T // length is a power of two, or 0
	head int
	n    int
}

func (q *fifo[T]) len() int { return q.n }

func (q *fifo[T]) front() T { return q.ring[q.head] }

func (q *fifo[T]) back() T { return q.ring[(q.head+q.n-1)&(len(q.ring)-1)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

func (q *fifo[T]) pop() T {
	var zero T
	v := q.ring[q.head]
	q.ring[q.head] = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

func (q *fifo[T]) grow() {
	ring := make([]T, max(8, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

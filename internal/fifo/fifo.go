// Package fifo implements the growing queue that all rooms use, for frames, handlers, calls and
// messages. It is in this room because the simulator uses it, too.
package fifo

// Queue is a first-in-first-out queue in a ring that grows by doubling and keeps its
// memory. The zero Queue is empty. It is not safe for concurrent use.
type Queue[T any] struct {
	ring []T // length is a power of two, or 0
	head int
	n    int
}

// Len returns how many items are queued.
func (q *Queue[T]) Len() int { return q.n }

// At returns the i-th oldest item, for i from 0 to Len()-1, without removing it. The pointer is
// valid until the next Push.
func (q *Queue[T]) At(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// Push appends x.
func (q *Queue[T]) Push(x T) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = x
	q.n++
}

// Pop removes and returns the oldest item. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var zero T
	at := &q.ring[q.head]
	x := *at
	*at = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return x
}

// Keep removes the items for which keep returns false.
func (q *Queue[T]) Keep(keep func(*T) bool) {
	for range q.n {
		stays := keep(q.At(0))
		if x := q.Pop(); stays {
			q.Push(x)
		}
	}
}

// Clear removes all items and releases the memory.
func (q *Queue[T]) Clear() { *q = Queue[T]{} }

func (q *Queue[T]) grow() {
	ring := make([]T, max(8, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

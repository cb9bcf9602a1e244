package seam

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam/hook"
	"github.com/bobnet-go/bobnet/vipl"
)

// Completion is an entry of a completion queue, with its descriptor. Err is vipl.ErrDescriptor if
// the descriptor completed in error. The entry of a listener that is bound to the queue has only a
// Request.
type Completion = hook.Completion[vipl.VI, vipl.Descriptor, vipl.Request]

// Queue is a completion queue for packages above vipl. Each call takes a batch of completions with
// their descriptors.
//
// Goroutines that share a Queue guard it, and the state that completions change, by their own lock.
// Each goroutine waits without this lock. The first goroutine that returns from its wait takes the
// completions in order. Then all goroutines check their conditions again:
//
//	mu.Lock()
//	for !done() {
//		seen := q.Seen()
//		mu.Unlock()
//		err := q.WaitSince(ctx, 0, seen)
//		mu.Lock()
//		handle(q.Reap())
//	}
//
// A goroutine that makes done true by other means calls Wake. The lock is needed for Seen, Full,
// Reap, Poll and ReapWait; the other calls need none.
//
// The end of an attempt to connect a VI whose receive queue is bound to the queue ends WaitSince,
// too. So a caller that makes many connections at once needs no other place to wait.
type Queue struct {
	*vipl.CQ
	of   hook.Queue[Completion]
	seen uint32
	out  []Completion
	n    int // of out, that the last call returned
}

// NewQueue creates a completion queue with the given number of entries. Each call takes at most
// batch completions.
func NewQueue(nic *vipl.NIC, entries, batch int) (*Queue, error) {
	cq, err := nic.CreateCQ(entries)
	if err != nil {
		return nil, err
	}
	return OnQueue(cq, batch), nil
}

// OnQueue is NewQueue for an existing completion queue.
func OnQueue(cq *vipl.CQ, batch int) *Queue {
	return &Queue{CQ: cq, of: hook.QueueOf(cq).(hook.Queue[Completion]), out: make([]Completion, batch)}
}

// Reap takes completions without polling the NIC. The result is valid until the next call that
// takes completions.
func (q *Queue) Reap() []Completion {
	clear(q.out[:q.n])
	q.n, q.seen = q.of.Reap(q.out)
	return q.out[:q.n]
}

// Poll is Reap, but polls the NIC once if there is no completion. If there is still none, it
// returns vipl.ErrNotDone.
func (q *Queue) Poll() (done []Completion, err error) {
	clear(q.out[:q.n])
	q.n, err = q.of.ReapDone(q.out)
	return q.out[:q.n], err
}

// ReapWait is Reap, but blocks until there is a completion or ctx ends. If ctx ends, the error is
// both vipl.ErrTimeout and the context's error.
func (q *Queue) ReapWait(ctx context.Context) (done []Completion, err error) {
	clear(q.out[:q.n])
	q.n, err = q.of.ReapWait(ctx, q.out)
	return q.out[:q.n], err
}

// Full reports whether the last call has taken a full batch, so that there may be more completions.
func (q *Queue) Full() bool { return q.n == len(q.out) }

// Seen returns the position in the queue up to which the last Reap has taken completions.
func (q *Queue) Seen() uint32 { return q.seen }

// WaitSince blocks until there is a completion that the Reap before Seen did not take, or until
// Wake has been called since then. It may also return without a reason. It returns vipl.ErrNotDone
// when d has passed, unless d is 0. When ctx ends, it returns an error that is both vipl.ErrTimeout
// and the context's error. It does not allocate, unlike a context with a deadline.
func (q *Queue) WaitSince(ctx context.Context, d time.Duration, seen uint32) error {
	return q.of.WaitSince(ctx, d, seen)
}

// Wake makes all goroutines that wait at the queue check their conditions.
func (q *Queue) Wake() { q.of.Wake() }

// LookElsewhere makes waits of the NIC poll memory of the caller's beside the link. They call look. WaitSince
// returns if look returns true. Before a goroutine sleeps, it calls look with sleep set: see
// progress.Engine.LookElsewhere. Nil ends this. LookElsewhere returns false if the NIC has a look already.
func (q *Queue) LookElsewhere(look func(sleep bool) bool) bool { return q.of.LookElsewhere(look) }

// Attend registers f to be called when there are completions, once until the next Reap, so that a
// package handles them while the program computes. f is called like the handlers of VI.SendNotify:
// without the NIC's lock, on the goroutine that drives the NIC or on the NIC's own goroutine. If
// there are completions already, Attend itself calls f. It may call any method. Handlers of
// CQ.Notify take precedence. A nil f ends the registration.
//
// f is also called when an attempt to connect a VI whose receive queue is bound to the queue has
// ended.
//
// While f is registered, WaitSince also returns when a peer has written to memory through a VI
// whose receive queue is bound to the queue. Such a write makes no entry.
func (q *Queue) Attend(f func()) error { return q.of.Attend(f) }

package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/progress"
)

// CQ is a completion queue: it collects the completions of many work queues,
// so that one caller can serve many VIs. It may be shared between goroutines.
//
// An entry names the VI and which of its queues has a completion; take the
// descriptor with SendDone or RecvDone (VIPL reference, section 9). A CQ has
// a fixed number of entries: when it is full the entry is lost and counted in
// NICStats.CQOverruns, while the descriptor stays on its work queue; the error
// handler is told CodeVIOverrun. A CQ as large as the queue depths of its VIs
// together never overflows.
//
// Listeners may be bound to it too, so that one wait is for completions and for
// connection requests: see Listener.Bind.
type CQ struct {
	nic       *NIC
	entries   []cqEntry // a place for each completion, and for each bound listener; see dead
	size      int       // how many are for completions
	head      int
	n         int
	notices   int // of n, entries of listeners
	dead      int // of n, entries of VIs that are closed: fewer than there are places
	users     int // work queues bound to it
	listeners int // bound to it
	closed    bool
	gate      progress.Gate

	handlers entryHandlers
	bell     bell
}

// cqEntry is of a work queue or of a listener; the other is nil.
type cqEntry struct {
	vi       *VI
	listener *Listener
	recv     bool
}

// CreateCQ makes a completion queue (VipCreateCQ) of at least one entry. A NIC
// has at most MaxCQs.
func (n *NIC) CreateCQ(entries int) (*CQ, error) {
	if entries < 1 || entries > MaxCQEntries {
		return nil, opError("create completion queue", ErrInvalidParameter, "%d entries are not in 1..%d", entries, MaxCQEntries)
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case n.numCQs >= MaxCQs:
		return nil, opError("create completion queue", ErrResource, "all %d completion queues are in use; close some", MaxCQs)
	}
	n.numCQs++
	return &CQ{nic: n, entries: make([]cqEntry, entries), size: entries}, nil
}

func (q *CQ) push(v *VI, recv bool) {
	if v.closed { // its entries are being dropped
		return
	}
	if q.handlers.Len() > 0 {
		q.tell(v, recv)
		return
	}
	if q.used() == q.size {
		q.nic.stats.CQOverruns++
		q.nic.raiseCQ(q, v)
		return
	}
	v.queue(recv).listed++
	q.add(cqEntry{vi: v, recv: recv})
	q.ring()
	q.gate.Open(&q.nic.eng)
}

// used returns how many completions the queue holds.
func (q *CQ) used() int { return q.n - q.notices - q.dead }

// add puts an entry behind the others; there is room, but for what is taken by dead
// ones.
func (q *CQ) add(e cqEntry) {
	if q.n == len(q.entries) {
		q.move(2 * (q.size + q.listeners))
	}
	i := q.head + q.n
	if i >= len(q.entries) {
		i -= len(q.entries)
	}
	q.entries[i] = e
	q.n++
}

// pop takes off the oldest entry; there is one.
func (q *CQ) pop() cqEntry {
	e := q.entries[q.head]
	q.entries[q.head] = cqEntry{}
	q.n--
	if q.head++; q.head == len(q.entries) {
		q.head = 0
	}
	return e
}

// next takes the oldest entry. Those of closed VIs, and of listeners whose requests
// have been taken meanwhile, are passed over.
func (q *CQ) next() (e cqEntry, ok bool) {
	for q.n > 0 {
		e = q.pop()
		switch {
		case e.listener != nil:
			if q.taken(e.listener) {
				return e, true
			}
		case e.vi.closed:
			q.dead--
		default:
			e.vi.queue(e.recv).listed--
			return e, true
		}
	}
	return cqEntry{}, false
}

// take is next for those who tell entries of listeners by a nil VI.
func (q *CQ) take() (v *VI, recv bool, ok bool) {
	e, ok := q.next()
	return e.vi, e.recv, ok
}

// unlist gives up the entries of v, which is closed. They stay in their ring until
// their turn comes or half of what is there is of that kind. So the time that it takes
// to close VIs is in proportion to their entries, however many others there are.
func (v *VI) unlist() {
	for _, from := range []*queue{&v.sq, &v.rq} {
		if from.cq != nil {
			from.cq.dead += from.listed
			from.listed = 0
		}
	}
	for _, q := range []*CQ{v.sq.cq, v.rq.cq} {
		if q != nil && q.dead > 0 && 2*q.dead >= q.n {
			q.bury()
		}
	}
}

// bury removes the entries of closed VIs.
func (q *CQ) bury() {
	q.remove(func(e *cqEntry) bool { return e.listener == nil && e.vi.closed })
	q.dead = 0
}

func (q *CQ) remove(gone func(e *cqEntry) bool) {
	for range q.n {
		if e := q.pop(); !gone(&e) {
			q.add(e)
		}
	}
}

// Done takes the next entry (VipCQDone). It never blocks: it polls the NIC
// once if need be and returns ErrNotDone when there is none. An entry without a
// VI is of a listener that is bound to the queue.
func (q *CQ) Done() (vi *VI, recv bool, err error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	for polled := false; ; polled = true {
		if v, recv, ok := q.take(); ok {
			return v, recv, nil
		}
		if err := q.isClosed(); err != nil {
			return nil, false, err
		}
		if polled {
			n.idlePoll()
			return nil, false, ErrNotDone
		}
		n.eng.Poll()
	}
}

// Wait takes the next entry, blocking until there is one (VipCQWait) or ctx
// ends, which returns an error that is both ErrTimeout and the context's. An
// entry without a VI is of a listener that is bound to the queue.
func (q *CQ) Wait(ctx context.Context) (vi *VI, recv bool, err error) {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	w := n.eng.Begin(ctx)
	defer n.eng.End(&w)
	for {
		if v, recv, ok := q.take(); ok {
			return v, recv, nil
		}
		if err := q.isClosed(); err != nil {
			return nil, false, err
		}
		if err := n.wait(&w, &q.gate); err != nil {
			return nil, false, err
		}
	}
}

// Close destroys the queue (VipDestroyCQ). Waiters return ErrClosed, handlers
// that wait are cancelled. It fails with ErrResource while a VI or a listener is
// bound to the queue. Closing twice does nothing.
func (q *CQ) Close() error {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if q.users+q.listeners > 0 && !n.closed {
		return opError("destroy completion queue", ErrResource,
			"%d work queues and %d listeners are still bound to it; close the VIs and the listeners first", q.users, q.listeners)
	}
	if !q.closed {
		n.numCQs--
	}
	q.closed, q.bell = true, bell{}
	q.handlers.Clear()
	n.cancelCalls(nil, q)
	q.gate.Open(&n.eng)
	return nil
}

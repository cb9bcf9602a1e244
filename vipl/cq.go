package vipl

import "context"

// CQ is a completion queue: it collects the completions of many work queues,
// so that one caller can serve many VIs. It may be shared between goroutines.
//
// An entry names the VI and which of its queues has a completion; take the
// descriptor with SendDone or RecvDone (VIPL reference, section 9). A CQ has
// a fixed number of entries: when it is full the entry is lost and counted in
// NICStats.CQOverruns, while the descriptor stays on its work queue; the error
// handler is told CodeVIOverrun. A CQ as large as the queue depths of its VIs
// together never overflows.
type CQ struct {
	nic     *NIC
	entries []cqEntry
	head    int
	n       int
	users   int // work queues bound to it
	closed  bool
	gate    gate

	handlers entryHandlers
}

type cqEntry struct {
	vi   *VI
	recv bool
}

// CreateCQ makes a completion queue (VipCreateCQ) of at least one entry.
func (n *NIC) CreateCQ(entries int) (*CQ, error) {
	if entries < 1 || entries > MaxCQEntries {
		return nil, opError("create completion queue", ErrInvalidParameter, "%d entries are not in 1..%d", entries, MaxCQEntries)
	}
	n.mu.Lock()
	defer n.unlock()
	if n.closed {
		return nil, ErrClosed
	}
	return &CQ{nic: n, entries: make([]cqEntry, entries)}, nil
}

func (q *CQ) push(v *VI, recv bool) {
	if v.closed { // its entries are being dropped
		return
	}
	if q.handlers.size() > 0 {
		q.tell(v, recv)
		return
	}
	if q.n == len(q.entries) {
		q.nic.stats.CQOverruns++
		q.nic.raiseCQ(q, v)
		return
	}
	i := q.head + q.n
	if i >= len(q.entries) {
		i -= len(q.entries)
	}
	q.entries[i] = cqEntry{v, recv}
	q.n++
	q.gate.open(q.nic)
}

func (q *CQ) take() (v *VI, recv bool, ok bool) {
	if q.n == 0 {
		return nil, false, false
	}
	e := q.entries[q.head]
	q.entries[q.head] = cqEntry{}
	q.n--
	if q.head++; q.head == len(q.entries) {
		q.head = 0
	}
	return e.vi, e.recv, true
}

// drop removes the entries of v, which is being closed.
func (q *CQ) drop(v *VI) {
	for range q.n {
		if e, recv, _ := q.take(); e != v {
			i := (q.head + q.n) % len(q.entries)
			q.entries[i] = cqEntry{e, recv}
			q.n++
		}
	}
}

// Done takes the next entry (VipCQDone). It never blocks: it polls the NIC
// once if need be and returns ErrNotDone when there is none.
func (q *CQ) Done() (vi *VI, recv bool, err error) {
	n := q.nic
	n.mu.Lock()
	defer n.unlock()
	for polled := false; ; polled = true {
		if v, recv, ok := q.take(); ok {
			return v, recv, nil
		}
		if q.closed || n.closed {
			return nil, false, ErrClosed
		}
		if polled {
			n.idlePoll()
			return nil, false, ErrNotDone
		}
		n.poll()
	}
}

// Wait takes the next entry, blocking until there is one (VipCQWait) or ctx
// ends, which returns an error that is both ErrTimeout and the context's.
func (q *CQ) Wait(ctx context.Context) (vi *VI, recv bool, err error) {
	n := q.nic
	n.mu.Lock()
	defer n.unlock()
	w := n.waiter(ctx)
	defer n.endWait(&w)
	for {
		if v, recv, ok := q.take(); ok {
			return v, recv, nil
		}
		if q.closed || n.closed {
			return nil, false, ErrClosed
		}
		if err := n.wait(&w, &q.gate); err != nil {
			return nil, false, err
		}
	}
}

// Close destroys the queue (VipDestroyCQ). Waiters return ErrClosed, handlers
// that wait are cancelled. It fails
// with ErrResource while a VI is bound to the queue. Closing twice does nothing.
func (q *CQ) Close() error {
	n := q.nic
	n.mu.Lock()
	defer n.unlock()
	if q.users > 0 && !n.closed {
		return opError("destroy completion queue", ErrResource, "%d work queues are still bound to it; close their VIs first", q.users)
	}
	q.closed = true
	q.handlers.clear()
	n.cancelCalls(nil, q)
	q.gate.open(n)
	return nil
}

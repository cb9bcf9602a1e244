package vipl

// CQAttributes describe a completion queue.
type CQAttributes struct {
	Entries    int // how many it holds
	Used       int // how many it holds now
	WorkQueues int // bound to it
	Handlers   int // that Notify has left waiting
}

// Query returns the queue's attributes.
func (q *CQ) Query() CQAttributes {
	q.nic.mu.Lock()
	defer q.nic.unlock()
	return CQAttributes{Entries: len(q.entries), Used: q.n, WorkQueues: q.users, Handlers: q.handlers.size()}
}

// Resize changes how many entries the queue holds (VipResizeCQ). Entries that
// it holds now stay, in order; with fewer places than those it fails with
// ErrResource and changes nothing.
func (q *CQ) Resize(entries int) error {
	const op = "resize completion queue"
	n := q.nic
	n.mu.Lock()
	defer n.unlock()
	switch {
	case q.closed || n.closed:
		return ErrClosed
	case entries < 1 || entries > MaxCQEntries:
		return opError(op, ErrInvalidParameter, "%d entries are not in 1..%d", entries, MaxCQEntries)
	case entries < q.n:
		return opError(op, ErrResource, "it holds %d entries now, which do not fit in %d: take them first", q.n, entries)
	}
	ring := make([]cqEntry, entries)
	k := copy(ring[:q.n], q.entries[q.head:])
	copy(ring[k:q.n], q.entries)
	q.entries, q.head = ring, 0
	return nil
}

package vipl

// CQAttributes describe a completion queue.
type CQAttributes struct {
	Entries    int // capacity
	Used       int // entries in the queue now
	WorkQueues int // work queues bound to it
	Listeners  int // listeners bound to it; each has one more entry reserved
	Handlers   int // handlers of Notify that wait for an entry
}

// Query returns the queue's attributes.
func (q *CQ) Query() CQAttributes {
	q.nic.eng.Lock()
	defer q.nic.eng.Unlock()
	return CQAttributes{Entries: q.ring.Size, Used: q.ring.Used(), WorkQueues: q.users, Listeners: q.ring.Bound(), Handlers: q.handlers.Len()}
}

// Resize changes the queue's capacity (VipResizeCQ). The entries in it remain, in order. If they do
// not fit, it returns ErrResource and changes nothing.
func (q *CQ) Resize(entries int) error {
	const op = "resize completion queue"
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := q.isClosed(); err != nil {
		return err
	}
	switch {
	case entries < 1 || entries > MaxCQEntries:
		return opError(op, ErrArgument, "%d entries are not in 1..%d", entries, MaxCQEntries)
	case entries < q.ring.Used():
		return opError(op, ErrResource, "the queue holds %d entries, more than its new size %d (take some first)", q.ring.Used(), entries)
	}
	q.ring.Size = entries
	return nil
}

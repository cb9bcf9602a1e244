package vipl

// Bind has the listener's requests announced by a completion queue of the same
// NIC, so that a server of many connections waits in one place. VIPL has no such
// thing: its VipConnectWait takes a thread. Nil ends the binding; so does Close.
//
// Each request that arrives puts one entry into the queue, in turn with the
// completions: CQ.Wait, CQ.Done and handlers of CQ.Notify get it with a nil VI,
// and Poll then returns the request. Entries of requests that Wait or Poll has taken
// already are passed over.
// Requests that wait when Bind is called are announced at once.
//
// The queue has a place besides its entries for each bound listener, which
// announces its next request when that before it has been told of, so that no
// announcement is lost, however full the queue is.
func (l *Listener) Bind(q *CQ) error {
	const op = "bind listener"
	n := l.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := l.isClosed(); err != nil {
		return err
	}
	switch {
	case q != nil && (q.nic != n || q.closed):
		return opError(op, ErrArgument, "the completion queue is closed or belongs to another NIC")
	}
	l.unbind()
	if q == nil {
		return nil
	}
	l.cq = q
	q.ring.Bind()
	for range l.in.Backlog.Waiting() {
		q.ring.Announce(&l.notice)
	}
	return nil
}

// unbind takes back what has been announced and not been told of.
func (l *Listener) unbind() {
	if l.cq != nil {
		l.cq.ring.Unbind(&l.notice)
		l.cq = nil
	}
}

package vipl

// Bind announces the listener's requests in a completion queue of the same NIC, so that a server of
// many connections waits in one place. Nil ends the binding, and so does Close. VIPL has no
// equivalent: its VipConnectWait occupies a thread.
//
// Each request that arrives adds one entry to the queue, in order with the completions. CQ.Wait,
// CQ.Done and handlers of CQ.Notify get the entry with a nil VI; Poll then returns the request. The
// queue skips entries of requests that Wait or Poll has already returned. Bind announces the
// requests that are already waiting.
//
// The queue reserves one entry for each bound listener, in addition to its own entries. A listener
// announces its next request when its previous entry has been taken. So no announcement is lost,
// however full the queue is.
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

// unbind removes the announcements that have not been delivered.
func (l *Listener) unbind() {
	if l.cq != nil {
		l.cq.ring.Unbind(&l.notice)
		l.cq = nil
	}
}

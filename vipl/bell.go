package vipl

// bell calls a function of the program's when a completion queue has something new.
type bell struct {
	ring func()
	rung bool // it has been called, or will be, since the last Reap
}

// Attend has f called when entries have come, once until the next Reap, so that what
// completions mean to a package on top is seen to while the program computes. f is called
// like the handlers of VI.SendNotify: on the goroutine that drives the NIC or the NIC's
// own, without its lock, and by Attend itself if there are entries. It may call any
// method. Nil ends that. Handlers of Notify come first.
//
// Besides, those who wait at the queue (WaitSince) look again when a peer has written to
// memory through a VI whose receive queue is bound to it, which makes no entry.
func (q *CQ) Attend(f func()) error {
	n := q.nic
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := q.isClosed(); err != nil {
		return err
	}
	n.cancelCalls(nil, q)
	if q.bell = (bell{ring: f}); q.n > q.dead {
		q.ring()
	}
	return nil
}

// ring owes the call, unless it has been called and has not reaped.
func (q *CQ) ring() {
	if b := &q.bell; b.ring != nil && !b.rung {
		b.rung = true
		q.nic.calls.Owe(call{ring: b.ring, q: q})
	}
}

// wrote has those look again who wait for memory to change, which the peer of v has.
func (v *VI) wrote() {
	if q := v.rq.cq; q != nil && q.bell.ring != nil {
		q.gate.Open(&v.nic.eng)
	}
}

package vipl

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
	q.attend = f
	q.ring.Attend(f != nil)
	return nil
}

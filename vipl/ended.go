package vipl

// ended is closed when a NIC is of no use any more. The engine's lock guards the cause.
type ended struct {
	ch    chan struct{}
	cause error
}

// Ended returns a channel that is closed when the NIC is of no use any more: it is being
// closed, or its link is dead, which a change of the interface's MAC or somebody who closes
// the link brings about. Cause says which. Who waits for something else than the NIC, and is
// not told by an error, waits for this besides. It may be called by any goroutine.
func (n *NIC) Ended() <-chan struct{} { return n.ended.ch }

// Cause returns why the NIC is of no use any more: ErrClosed, or an error that wraps ErrLink
// and what the link says. It is nil while the NIC is of use.
func (n *NIC) Cause() error {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.ended.cause
}

// end notes that the NIC is of no use any more. The first cause stays. The engine's lock is
// held.
func (n *NIC) end(cause error) {
	if n.ended.cause == nil {
		n.ended.cause = cause
		close(n.ended.ch)
	}
}

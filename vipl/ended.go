package vipl

// ended is closed when a NIC is closed or its link has failed. The engine's lock guards the cause.
type ended struct {
	ch    chan struct{}
	cause error
}

// Ended returns a channel that is closed when the NIC is closed or its link has failed. A link
// fails for good if the interface's MAC changes or another owner closes the link. Cause returns the
// reason. Use Ended in a select statement, next to events that are not the NIC's. Any goroutine may
// call it.
func (n *NIC) Ended() <-chan struct{} { return n.ended.ch }

// Cause returns why Ended's channel is closed: ErrClosed, or an error that wraps ErrLink and the
// link's error. It returns nil before.
func (n *NIC) Cause() error {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.ended.cause
}

// end records that the NIC has ended. The first cause remains. The caller must hold the engine's
// lock.
func (n *NIC) end(cause error) {
	if n.ended.cause == nil {
		n.ended.cause = cause
		close(n.ended.ch)
	}
}

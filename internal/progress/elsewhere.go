package progress

// elsewhere is memory beside the link. Other processes write to it what goroutines wait for.
type elsewhere struct {
	gate *Gate
	look func(sleep bool) bool
}

// LookElsewhere makes the goroutines in Wait that poll the link poll the caller's memory, too. They call look, and
// open g if it returns true. They also call look before they sleep, with sleep set. From then on, the processes that write
// the memory must wake this process by a frame. look must not block. It is called with or without the lock. A nil
// look ends this. LookElsewhere returns false if the engine has a look already. The caller must hold the lock.
func (e *Engine) LookElsewhere(g *Gate, look func(sleep bool) bool) bool {
	if look != nil && e.elsewhere.look != nil {
		return false
	}
	e.elsewhere = elsewhere{g, look}
	return true
}

// Crowd makes waits polite by default: see spinner. More processes that communicate through shared memory wait on
// this host than it has processors. The caller must hold the lock.
func (e *Engine) Crowd() { e.spin.crowd, e.spin.polite = true, true }

// lookElsewhere reports whether there is something in the memory of LookElsewhere, and opens its gate.
func (e *Engine) lookElsewhere(sleep bool) bool {
	if e.elsewhere.look == nil || !e.elsewhere.look(sleep) {
		return false
	}
	e.elsewhere.gate.Open(e)
	return true
}

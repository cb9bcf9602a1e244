package progress

// Gate is where goroutines wait for one object, such as a queue or a listener. Opening it makes all
// of them check again. The zero Gate is ready to use. A Gate belongs to one Engine, and the caller
// must hold the engine's lock.
type Gate struct {
	blocked *place // linked list
	opened  uint32 // count, modulo 2^32, by which a wait notices that its own poll has opened the gate
}

// Open wakes all goroutines that wait at g. The caller must hold the lock.
func (g *Gate) Open(e *Engine) {
	if g.opened++; g.blocked != nil || e.lead.sleeping {
		g.wake(e)
	}
}

func (g *Gate) wake(e *Engine) {
	for p := g.blocked; p != nil; p = p.next {
		p.wake()
		e.lead.woke = true
	}
	if e.lead.sleeping && e.lead.sleepsAt == g {
		e.link.Wake()
	}
}

// Opened returns how often g has been opened. A goroutine that checks its condition under another
// lock than the engine's calls Opened before the check, and passes the result to Engine.WaitSince.
// The caller must hold the lock.
func (g *Gate) Opened() uint32 { return g.opened }

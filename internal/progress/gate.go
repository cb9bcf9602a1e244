package progress

// Gate is where goroutines wait for one thing: a queue, a listener and so on have one
// each. To open it makes all of them look again. The zero Gate is ready to use. The
// engine's lock guards it, so a Gate belongs to one Engine.
type Gate struct {
	blocked *place // a list
	opened  uint32 // how often, modulo 2^32, so that a wait notices that its own poll has opened the gate
}

// Open wakes all goroutines that wait at g. The lock is held.
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

// Opened returns how often g has been opened. A goroutine that looks for what it wants
// under another lock than the engine's calls Opened before it looks and passes the result
// to Engine.WaitSince. The lock is held.
func (g *Gate) Opened() uint32 { return g.opened }

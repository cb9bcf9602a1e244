package progress

// Gate is what goroutines wait at: one for each queue, listener and so on. Opening it
// has all of them look again. The zero Gate is ready. The engine's lock guards it, so
// one Gate belongs to one Engine.
type Gate struct {
	blocked *place // a list
	opened  uint32 // times, so that a wait notices what its own poll has done
}

// Open wakes whoever waits at g. The lock is held.
func (g *Gate) Open(e *Engine) {
	if g.opened++; g.blocked != nil || e.lead.sleeping {
		g.wake(e)
	}
}

func (g *Gate) wake(e *Engine) {
	for p := g.blocked; p != nil; p = p.next {
		p.wake()
	}
	if e.lead.sleeping && e.lead.sleepsAt == g {
		e.link.Wake()
	}
}

// Opened returns how often g has been opened. A goroutine that looks for what it wants
// under another lock than the engine's reads it before it looks, and gives it to
// Engine.WaitSince. The lock is held.
func (g *Gate) Opened() uint32 { return g.opened }

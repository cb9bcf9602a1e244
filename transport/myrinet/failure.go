package myrinet

// Cut stops the cable in both directions. Packets on it are lost; a packet whose head has passed
// arrives truncated.
func (c *Cable) Cut() {
	if !c.cut {
		c.cut = true
		c.a.sever()
		c.b.sever()
	}
}

// Mend makes the cable work again.
func (c *Cable) Mend() { c.cut = false }

// IsCut reports whether the cable was cut.
func (c *Cable) IsCut() bool { return c.cut }

// Fail makes the switch lose power: packets in it, and on its cables, are lost.
func (s *Switch) Fail() {
	if !s.up {
		return
	}
	s.up = false
	for _, p := range s.port {
		if p.cable == nil {
			continue
		}
		p.sever()
		p.peer.sever()
		if w := p.current; w != nil && w.at == p && w.state == waiting {
			w.unblock()
			s.x.Cancel(p.index)
			w.lose(&p.stats)
		}
	}
}

// Restore makes the switch work again, empty.
func (s *Switch) Restore() { s.up = true }

// Up reports whether the switch works.
func (s *Switch) Up() bool { return s.up }

// sever cuts the packets on the link that leaves by the port.
func (p *Port) sever() {
	w := p.busy
	if w == nil {
		return
	}
	i := len(w.path) - 1
	for w.path[i].port != p {
		i--
	}
	switch {
	case w.lost || w.state == gone:
		w.freeBehind(i + 1)
		return
	case i == len(w.path)-1 && (w.state == flying || w.state == standing):
		w.lose(&p.stats)
		return
	}
	p.stats.Truncated++
	passed := (p.f.world.Now() - w.path[i].base - w.path[i].late) * p.f.opts.Bandwidth / 1e9
	w.truncate(int(min(max(passed, 1), int64(w.size()))))
	w.freeBehind(i + 1)
	if w.state == waiting {
		w.settle()
	}
}

// lose makes the packet vanish where its head is.
func (w *worm) lose(at *PortStats) {
	at.Lost++
	w.f.stats.UnderWay--
	w.lost = true
	switch w.state {
	case flying:
		w.state = dying
	case standing:
		w.at.next, w.state = nil, gone
	default:
		w.state = gone
		w.at.clear()
	}
	w.freeBehind(len(w.path))
	w.recycle()
}

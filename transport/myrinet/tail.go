package myrinet

// settle schedules the tails whose times are known.
func (w *worm) settle() {
	slack := w.f.opts.Slack
	for w.tail < len(w.path) && min(w.path[w.tail].size, w.room()) <= (len(w.path)-w.tail)*slack {
		w.freeNext(w.path[w.tail:])
	}
}

// room returns the maximum number of bytes that have yet to pass a link of the path.
func (w *worm) room() int { return w.size() + len(w.path) }

// freeNext schedules the tail of the first link without a scheduled tail. ahead begins with that
// link, and contains everything that the head has entered since.
func (w *worm) freeNext(ahead []hop) {
	f, h := w.f, &ahead[0]
	var at int64
	for m := range ahead {
		at = max(at, ahead[m].late+f.opts.wire(min(h.size, w.room())-m*f.opts.Slack))
	}
	w.tail++
	h.port.freeBy(h.base + at)
}

// finish makes the packet enter its card, or vanish: nothing blocks its head any more.
func (w *worm) finish() {
	now := w.f.world.Now()
	w.state = leaving
	w.path = append(w.path, hop{late: now - w.base})
	for w.tail < len(w.path)-1 {
		w.freeNext(w.path[w.tail:])
	}
	w.path = w.path[:len(w.path)-1]
	w.at.doneAt = now + w.f.opts.wire(w.size())
	w.f.world.At(w.at.doneAt, w.at.done)
}

// drop makes the packet vanish at its head, and counts the reason. The rest of the packet follows
// as fast as the link carries it.
func (w *worm) drop(reason *uint64) {
	*reason++
	w.f.stats.UnderWay--
	w.lost = true
	if w.at != nil && w.at.current == w {
		w.finish()
		return
	}
	w.state = gone
	for w.tail < len(w.path) {
		w.freeNext(w.path[w.tail:])
	}
}

// freeBy makes the port's outgoing link free at the given time.
func (p *Port) freeBy(at int64) {
	p.freeAt = max(at, p.f.world.Now())
	p.f.world.At(p.freeAt, p.freed)
}

// onFreed handles the event that the tail has left the link that begins here.
func (p *Port) onFreed() {
	w := p.busy
	if w == nil || p.freeAt != p.f.world.Now() {
		return // a failure has freed the link earlier
	}
	p.busy, p.freeAt = nil, 0
	w.held--
	w.recycle()
	if p.sw != nil {
		p.sw.passed(p)
		return
	}
	p.sending = false
	p.host.Sent()
}

// passed handles the event that the tail of a packet has passed the crossbar to port p. The tail
// has then left the buffer of its input, too.
func (s *Switch) passed(p *Port) {
	in := s.x.User(p.index)
	next, ok := s.x.Release(p.index)
	if in >= 0 {
		s.port[in].clear()
	}
	for ok {
		w := s.port[next].current
		w.unblock()
		if p.alive() {
			w.leave(p.index)
			return
		}
		next, ok = s.x.Release(p.index)
		w.drop(&w.at.stats.NoCable)
	}
}

// clear releases the input's buffer, and admits the packet that stands before it.
func (p *Port) clear() {
	p.current = nil
	if w := p.next; w != nil {
		p.next = nil
		w.unblock()
		w.enter()
	}
}

// onDone handles the arrival of the tail of a packet that enters its card, or vanishes.
func (p *Port) onDone() {
	w := p.current
	if w == nil || w.at != p || w.state != leaving || p.doneAt != p.f.world.Now() {
		return
	}
	w.state = gone
	if !w.lost {
		st := &p.f.stats
		st.UnderWay--
		if w.cut {
			st.DeliveredTruncated++
		} else {
			st.Delivered++
		}
		p.host.Arrived(w.data[w.head:], !w.cut)
	}
	w.recycle()
	p.clear()
}

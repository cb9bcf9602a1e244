package sim

import "slices"

// disturb applies the random faults to a frame that leaves the switch.
func (w *World) disturb(p passage) {
	if w.burstLoses(p.to) || w.chance(w.opts.Loss) {
		w.drop(p, &w.stats.Lost, "lost")
		return
	}
	if w.chance(w.opts.Dup) {
		w.duplicate(p)
	}
	w.emit(p)
}

// duplicate sends a second copy of p's frame.
func (w *World) duplicate(p passage) {
	w.stats.Duplicated++
	p.frame.refs++
	w.emit(p)
}

// emit applies corruption and reordering.
func (w *World) emit(p passage) {
	if w.chance(w.opts.Corrupt) {
		p = w.corrupt(p)
	}
	if w.chance(w.opts.Reorder) {
		w.hold(p)
		return
	}
	w.queue(p)
	if len(p.to.held) > 0 {
		w.overtake(p.to)
	}
}

// corrupt flips bits in this copy of the frame. The switch has already read the address; the
// station has not.
func (w *World) corrupt(p passage) passage {
	w.stats.Corrupted++
	p.frame = w.pool.own(p.frame)
	for range 1 + w.rng.IntN(8) {
		bit := w.rng.IntN(8 * len(p.frame.data))
		p.frame.data[bit/8] ^= 1 << (bit % 8)
	}
	return p
}

// held is a frame that waits in the switch for others to overtake it.
type held struct {
	passage
	behind int   // number of frames that must still overtake it
	until  int64 // when it stops waiting
}

// hold keeps p until some later frames have overtaken it.
func (w *World) hold(p passage) {
	w.stats.Reordered++
	h := held{passage: p, behind: 1 + w.rng.IntN(w.opts.ReorderBy), until: w.now + int64(w.opts.Hold)}
	p.to.held = append(p.to.held, h)
	w.schedule(h.until, p.to)
}

// overtake counts a frame that has overtaken the held frames of s.
func (w *World) overtake(s *Station) {
	for i := range s.held {
		s.held[i].behind--
	}
	s.fire(w)
}

// fire releases the held frames that enough frames have overtaken, or that have waited long enough.
// A released frame overtakes those that were held before it.
func (s *Station) fire(w *World) {
	for i := 0; i < len(s.held); i++ {
		h := s.held[i]
		if h.behind > 0 && h.until > w.now {
			continue
		}
		s.held = slices.Delete(s.held, i, i+1)
		w.queue(h.passage)
		for j := range i {
			s.held[j].behind--
		}
		i = -1
	}
}

// burstLoses advances the burst model of the line to s by one frame, and reports whether that frame
// is lost.
func (w *World) burstLoses(s *Station) bool {
	b := &w.opts.Burst
	if b.Enter == 0 {
		return false
	}
	if s.bad {
		s.bad = !w.chance(b.Leave)
	} else {
		s.bad = w.chance(b.Enter)
	}
	return s.bad && w.chance(b.Loss)
}

// chance consumes a random number only if the outcome is open, so that disabled options cost
// nothing.
func (w *World) chance(p float64) bool {
	return p > 0 && (p >= 1 || w.rng.Float64() < p)
}

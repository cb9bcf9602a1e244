package myrinet

import "slices"

// block has the worm wait where its head is, and sees to it that the wait ends.
func (w *worm) block() {
	w.since = w.f.world.Now()
	w.at.stats.Blocked++
	w.arm()
}

// unblock ends the wait, and counts it.
func (w *worm) unblock() {
	w.at.stats.BlockedNanos += uint64(w.f.world.Now() - w.since)
	w.state = leaving
}

// deadline is when the worm has waited long enough. One that stands before a buffer has
// more time than the one that has the buffer needs to be broken and dropped, so that it
// is broken itself only when those in front of it stand, too.
func (w *worm) deadline() int64 {
	if w.state == standing {
		return w.since + 3*w.at.timeout
	}
	return w.since + w.at.timeout
}

// arm sees to it that an event comes for the worm not later than its deadline. One event
// serves many waits: when it comes too early it arms itself again.
func (w *worm) arm() {
	if d := w.deadline(); w.armed == 0 || w.armed > d {
		w.armed = d
		w.f.world.At(d, w.expired)
	}
}

// onExpired is the worm's timer.
func (w *worm) onExpired() {
	now := w.f.world.Now()
	if w.armed != now {
		return // replaced by an earlier one
	}
	w.armed = 0
	switch {
	case w.state != waiting && w.state != standing:
	case now < w.deadline():
		w.arm()
	default:
		w.breakUp()
	}
}

// breakUp is what becomes of a packet that was blocked for too long. What is behind its
// head's buffer is thrown away, which frees the links that it holds; what the buffer has
// goes on, truncated. A packet that holds no more than its buffer is dropped when it was
// blocked for the same time again, and one that stands before a buffer at once.
func (w *worm) breakUp() {
	p := w.at
	if w.state == standing {
		w.unblock()
		p.next, w.at = nil, nil
		w.drop(&p.stats.TimedOut)
		return
	}
	if w.tail < len(w.path) {
		p.stats.Truncated++
		p.stats.BlockedNanos += uint64(w.f.world.Now() - w.since)
		w.truncate(w.f.opts.Slack)
		w.freeBehind(len(w.path))
		w.since = w.f.world.Now()
		w.arm()
		return
	}
	w.unblock()
	if p.sw != nil {
		p.sw.x.Cancel(p.index)
	}
	w.drop(&p.stats.TimedOut)
}

// truncate leaves n bytes of the packet, at its head.
func (w *worm) truncate(n int) {
	if n < w.size() {
		w.data = w.data[:w.head+n]
	}
	w.cut = true
}

// freeBehind frees the first n links of the path now, as far as they are held. One that
// is there twice is held by the later one.
func (w *worm) freeBehind(n int) {
	w.tail = max(w.tail, n)
	for i := range w.path[:n] {
		p := w.path[i].port
		again := slices.ContainsFunc(w.path[n:], func(h hop) bool { return h.port == p })
		if p.busy == w && !again && p.freeAt != w.f.world.Now() {
			p.freeBy(0)
		}
	}
}

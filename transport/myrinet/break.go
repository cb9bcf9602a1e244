package myrinet

import "slices"

// block makes the worm wait where its head is, and schedules the end of the wait.
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

// deadline returns when the worm has waited for too long. A worm that stands before a buffer gets
// more time than it takes to break and drop the worm in that buffer. It is therefore broken only if
// the worms ahead of it are stuck, too.
func (w *worm) deadline() int64 {
	if w.state == standing {
		return w.since + 3*w.at.timeout
	}
	return w.since + w.at.timeout
}

// arm schedules an event for the worm no later than its deadline. One event serves many waits: if
// it fires too early, it schedules itself again.
func (w *worm) arm() {
	if d := w.deadline(); w.armed == 0 || w.armed > d {
		w.armed = d
		w.f.world.At(d, w.expired)
	}
}

// onExpired handles the worm's timer event.
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

// breakUp breaks a packet that was blocked for too long. It drops the bytes behind the buffer that
// holds the packet's head, which frees their links. The bytes in the buffer continue as a truncated
// packet. A packet that occupies no more than its buffer is dropped when it has been blocked for
// the same time again. A packet that stands before a buffer is dropped at once.
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

// truncate shortens the packet to the n bytes at its head.
func (w *worm) truncate(n int) {
	if n < w.size() {
		w.data = w.data[:w.head+n]
	}
	w.cut = true
}

// freeBehind frees those of the first n links of the path that the packet still holds. If a link
// occurs twice in the path, the later occurrence holds it.
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

package vipl

// cqEntry is of a work queue or of a listener; the other is nil.
type cqEntry struct {
	vi       *VI
	listener *Listener
	recv     bool
}

func (q *CQ) push(v *VI, recv bool) {
	if v.closed { // its entries are being dropped
		return
	}
	if q.handlers.Len() > 0 {
		q.tell(v, recv)
		return
	}
	if q.used() == q.size {
		q.nic.stats.CQOverruns++
		q.nic.raiseCQ(q, v)
		return
	}
	v.queue(recv).listed++
	q.add(cqEntry{vi: v, recv: recv})
	q.ring()
	q.gate.Open(&q.nic.eng)
}

// used returns how many completions the queue holds.
func (q *CQ) used() int { return q.n - q.notices - q.dead }

// add puts an entry behind the others; there is room, but for what is taken by dead
// ones.
func (q *CQ) add(e cqEntry) {
	if q.n == len(q.entries) {
		q.move(2 * (q.size + q.listeners))
	}
	i := q.head + q.n
	if i >= len(q.entries) {
		i -= len(q.entries)
	}
	q.entries[i] = e
	q.n++
}

// pop takes off the oldest entry; there is one.
func (q *CQ) pop() cqEntry {
	e := q.entries[q.head]
	q.entries[q.head] = cqEntry{}
	q.n--
	if q.head++; q.head == len(q.entries) {
		q.head = 0
	}
	return e
}

// next takes the oldest entry. Those of closed VIs, and of listeners whose requests
// have been taken meanwhile, are passed over.
func (q *CQ) next() (e cqEntry, ok bool) {
	for q.n > 0 {
		e = q.pop()
		switch {
		case e.listener != nil:
			if q.taken(e.listener) {
				return e, true
			}
		case e.vi.closed:
			q.dead--
		default:
			e.vi.queue(e.recv).listed--
			return e, true
		}
	}
	return cqEntry{}, false
}

// removeClosed removes the entries of closed VIs.
func (q *CQ) removeClosed() {
	q.remove(func(e *cqEntry) bool { return e.listener == nil && e.vi.closed })
	q.dead = 0
}

func (q *CQ) remove(gone func(e *cqEntry) bool) {
	for range q.n {
		if e := q.pop(); !gone(&e) {
			q.add(e)
		}
	}
}

// unlist gives up the entries of v, which is closed. They stay in their ring until
// their turn comes or half of what is there is of that kind. So the time that it takes
// to close VIs is in proportion to their entries, however many others there are.
func (v *VI) unlist() {
	for _, from := range []*queue{&v.sq, &v.rq} {
		if from.cq != nil {
			from.cq.dead += from.listed
			from.listed = 0
		}
	}
	for _, q := range []*CQ{v.sq.cq, v.rq.cq} {
		if q != nil && q.dead > 0 && 2*q.dead >= q.n {
			q.removeClosed()
		}
	}
}

// reshape makes the places that size and listeners ask for.
func (q *CQ) reshape() {
	q.removeClosed()
	q.move(q.size + q.listeners)
}

// move has the entries go into a ring of so many places.
func (q *CQ) move(places int) {
	ring := make([]cqEntry, places)
	k := copy(ring[:q.n], q.entries[q.head:])
	copy(ring[k:q.n], q.entries)
	q.entries, q.head = ring, 0
}

// announce tells of a request that has come to l.
func (q *CQ) announce(l *Listener) {
	if q.handlers.Len() > 0 {
		q.tell(nil, false)
		return
	}
	if l.untold++; !l.listed {
		q.list(l)
	}
	q.gate.Open(&q.nic.eng)
}

// list puts l into its place in the ring.
func (q *CQ) list(l *Listener) {
	l.listed = true
	q.notices++
	q.add(cqEntry{listener: l})
	q.ring()
}

// taken is called with the listener of an entry that has been taken off. It
// reports whether that stands for a request, and lists l again for the next.
func (q *CQ) taken(l *Listener) bool {
	l.listed = false
	q.notices--
	if l.untold == 0 {
		return false
	}
	if l.untold--; l.untold > 0 {
		q.list(l)
	}
	return true
}

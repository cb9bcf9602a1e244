package endpoint

import "slices"

// A request without credit waits for one of its connection. If the connection breaks, the request
// returns after those in flight, in the order in which requests began to wait. So all requests end,
// and none is handled by a later program at the same address. For the same reason the translation
// connects again only after all of them have returned.

// stall is a request's place in the queue for a credit.
type stall struct {
	c      *client // of whose connection; nil: it has not waited
	ticket uint64
}

// join queues for a credit of c.
func (at *stall) join(c *client) {
	if at.c == c {
		return
	}
	at.leave()
	c.tickets++
	c.stalled = append(c.stalled, c.tickets)
	*at = stall{c, c.tickets}
}

// leave leaves the queue.
func (at *stall) leave() {
	c := at.c
	if c == nil {
		return
	}
	at.c = nil
	i := slices.Index(c.stalled, at.ticket)
	c.stalled = slices.Delete(c.stalled, i, i+1)
	if c.reason != 0 {
		c.ep.bundle.changed() // it may be the next one's turn
	}
}

// broken reports whether the request must return.
func (at *stall) broken() bool { return at.c != nil && at.c.reason != 0 }

// due reports whether all earlier requests have returned.
func (at *stall) due() bool { return at.c.used == 0 && at.c.stalled[0] == at.ticket }

// returning reports whether requests of the translation's last, broken connection have not returned
// yet.
func (t *translation) returning() bool {
	if c := t.last; c != nil && c.used == 0 && len(c.stalled) == 0 {
		t.last = nil
	}
	return t.last != nil
}

// comeBack returns a request that was not sent because its connection broke.
func (at *stall) comeBack(dest int, m *message, args []uint32, data []byte, call *call) error {
	c := at.c
	if call != nil {
		return &CallError{Reason: c.reason, Err: c.lost}
	}
	c.ep.returnUnsent(dest, c.to, m, args, data, c.reason, c.lost)
	return nil
}

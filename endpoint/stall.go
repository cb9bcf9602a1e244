package endpoint

import "slices"

// A request that finds no credit waits for one of its connection. If that breaks,
// the request comes back like those that are under way, behind them and in the order
// in which requests began to wait: the program sees an end of what it has sent, and not
// something of it handled by whoever serves at the same address afterwards. For the
// same reason the translation connects again only when all of them have come back.

// stall is the place of a request among those that wait for a credit.
type stall struct {
	c      *client // of whose connection; nil: it has not waited
	ticket uint64
}

// join takes a place behind the others that wait for a credit of c.
func (at *stall) join(c *client) {
	if at.c == c {
		return
	}
	at.leave()
	c.tickets++
	c.stalled = append(c.stalled, c.tickets)
	*at = stall{c, c.tickets}
}

// leave gives the place up.
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

// broken reports whether the request has to come back.
func (at *stall) broken() bool { return at.c != nil && at.c.reason != 0 }

// due reports whether what was sent or began to wait before has come back.
func (at *stall) due() bool { return at.c.used == 0 && at.c.stalled[0] == at.ticket }

// returning reports whether requests of the translation's last connection, which
// broke, have yet to come back.
func (t *translation) returning() bool {
	if c := t.last; c != nil && c.used == 0 && len(c.stalled) == 0 {
		t.last = nil
	}
	return t.last != nil
}

// comeBack returns a request that was not sent because the connection broke whose
// credit it waited for.
func (at *stall) comeBack(dest int, m *message, args []uint32, data []byte, call *call) error {
	c := at.c
	if call != nil {
		return &CallError{Reason: c.reason, Err: c.lost}
	}
	c.ep.returnUnsent(dest, c.to, m, args, data, c.reason, c.lost)
	return nil
}

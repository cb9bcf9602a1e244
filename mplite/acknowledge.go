package mplite

// A receive or probe from any source may wait for a message of a rank that has
// died, and nobody can tell. So it fails, as in ULFM (MPI 5, chapter on process
// failures), until the program has said that it knows of the death and goes on
// without that rank.

// AckFailed acknowledges the deaths of ranks of c that are known here, and returns
// these ranks, in c, in the order in which this rank has learned of them; nil if
// there are none (MPIX_Comm_ack_failed and MPIX_Comm_get_failed). From then on
// receives and probes from AnySource on c wait for the living again, until another
// rank dies. That concerns c alone, and no collective: those on c keep failing.
// Finalize does not fail because of ranks that were acknowledged on any communicator. Any
// goroutine may call AckFailed.
func (c *Comm) AckFailed() []int {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.acked = len(w.dead)
	var ranks []int
	for _, p := range w.dead {
		if c.contains(p.rank) {
			p.acked = true
			ranks = append(ranks, int(c.index[p.rank]))
		}
	}
	return ranks
}

// unacknowledged returns the error of the first death in c that the program has
// not acknowledged, or nil.
func (c *Comm) unacknowledged() error {
	for _, p := range c.w.dead[c.acked:] {
		if c.contains(p.rank) {
			return p.err
		}
	}
	return nil
}

// unaccepted returns the error of the first death that the program has not acknowledged
// on any communicator, or nil.
func (w *world) unaccepted() error {
	for _, p := range w.dead {
		if !p.acked {
			return p.err
		}
	}
	return nil
}

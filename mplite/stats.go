package mplite

// Stats counts what a rank has done since Init, over all its communicators.
type Stats struct {
	EagerSent, EagerReceived           uint64 // messages through bounce buffers
	RendezvousSent, RendezvousReceived uint64 // messages announced first
	BytesSent, BytesReceived           uint64 // payload
	SelfMessages                       uint64 // messages of the rank to itself
	Unexpected, UnexpectedMax          int    // messages that wait for their receive: now, and at most so far
	SpillBytes                         int    // memory that unexpected messages take beyond the receive buffers
	CreditStalls                       uint64 // sends that had to wait for the receiver to make room
	CreditMessages                     uint64 // messages that only returned credits
	Strays                             uint64 // control messages that named no operation of ours
	RanksFailed                        uint64 // ranks found dead
	Refused                            uint64 // requests for a connection from who does not belong to the job
	Requests                           int    // operation records allocated; they are reused
	Collectives                        [numCollectives]uint64
}

// Snapshot returns the counters. It is the same for every communicator.
func (c *Comm) Snapshot() Stats {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Unexpected, s.UnexpectedMax = w.match.waiting, w.match.waitMax
	s.SpillBytes = w.spill.used
	s.Refused = w.job.Refused()
	s.Requests = len(w.requests)
	return s
}

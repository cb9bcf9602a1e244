package mplite

// Stats counts what a rank has done since Init, over all its communicators.
type Stats struct {
	EagerSent          uint64                 `metric:"bobnet_mplite_eager_sent_total" help:"Messages sent through bounce buffers."`
	EagerReceived      uint64                 `metric:"bobnet_mplite_eager_received_total" help:"Messages received through bounce buffers."`
	RendezvousSent     uint64                 `metric:"bobnet_mplite_rendezvous_sent_total" help:"Messages announced and then written to the receiver's memory."`
	RendezvousReceived uint64                 `metric:"bobnet_mplite_rendezvous_received_total" help:"Messages that the sender wrote to this rank's memory."`
	BytesSent          uint64                 `metric:"bobnet_mplite_sent_bytes_total" help:"Payload sent."`
	BytesReceived      uint64                 `metric:"bobnet_mplite_received_bytes_total" help:"Payload received."`
	SelfMessages       uint64                 `metric:"bobnet_mplite_self_messages_total" help:"Messages of the rank to itself."`
	Unexpected         int                    `metric:"bobnet_mplite_unexpected_messages" help:"Messages that wait for their receive."`
	UnexpectedMax      int                    `metric:"bobnet_mplite_unexpected_messages_maximum" help:"Most messages that have waited for their receive at a time."`
	SpillBytes         int                    `metric:"bobnet_mplite_spill_bytes" help:"Memory that messages without a receive take beyond the receive buffers."`
	CreditStalls       uint64                 `metric:"bobnet_mplite_credit_stalls_total" help:"Sends that had to wait for the receiver to make room."`
	CreditMessages     uint64                 `metric:"bobnet_mplite_credit_messages_total" help:"Messages that only returned credits."`
	Strays             uint64                 `metric:"bobnet_mplite_stray_messages_total" help:"Control messages that named no operation of this rank."`
	RanksFailed        uint64                 `metric:"bobnet_mplite_failed_ranks_total" help:"Ranks found dead."`
	Refused            uint64                 `metric:"bobnet_mplite_refused_requests_total" help:"Requests for a connection from who does not belong to the job."`
	Requests           int                    // operation records allocated; they are reused
	Collectives        [numCollectives]uint64 `metric:"bobnet_mplite_collectives_total"`
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

package stream

// Stats count what a stream has done, or the streams of a Host.
type Stats struct {
	Reads, Writes           uint64 // calls; a Write that blocks is one
	BytesRead, BytesWritten uint64
	// MessagesSent and MessagesReceived are those with data, in which writes share.
	MessagesSent, MessagesReceived uint64
	DirectBytes                    uint64 // of BytesWritten, sent from where they lay
	Coalesced                      uint64 // writes that waited for others, or for room
	CreditsSent, CreditsReceived   uint64
	Abandoned                      uint64 // streams closed whose last data were not acknowledged in time
}

func (s *Stats) add(t *Stats) {
	s.Reads += t.Reads
	s.Writes += t.Writes
	s.BytesRead += t.BytesRead
	s.BytesWritten += t.BytesWritten
	s.MessagesSent += t.MessagesSent
	s.MessagesReceived += t.MessagesReceived
	s.DirectBytes += t.DirectBytes
	s.Coalesced += t.Coalesced
	s.CreditsSent += t.CreditsSent
	s.CreditsReceived += t.CreditsReceived
	s.Abandoned += t.Abandoned
}

// Stats returns what the stream has done so far.
func (c *Conn) Stats() Stats {
	c.lock()
	defer c.unlock()
	return c.stats
}

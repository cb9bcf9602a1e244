package stream

// Stats are the counters of a stream, or the sums over the streams of a Host.
type Stats struct {
	Reads        uint64 `metric:"bobnet_stream_reads_total" help:"Reads that returned data."`
	Writes       uint64 `metric:"bobnet_stream_writes_total" help:"Writes."`
	BytesRead    uint64 `metric:"bobnet_stream_read_bytes_total" help:"Bytes read."`
	BytesWritten uint64 `metric:"bobnet_stream_written_bytes_total" help:"Bytes written."`
	// MessagesSent and MessagesReceived count messages with data. Several writes can share one
	// message.
	MessagesSent     uint64 `metric:"bobnet_stream_sent_messages_total" help:"Messages with data sent."`
	MessagesReceived uint64 `metric:"bobnet_stream_received_messages_total" help:"Messages with data received."`
	DirectBytes      uint64 `metric:"bobnet_stream_direct_bytes_total" help:"Bytes written that were sent without a copy."`
	Coalesced        uint64 `metric:"bobnet_stream_coalesced_writes_total" help:"Writes held back to share a message, or for lack of room."`
	CreditsSent      uint64 `metric:"bobnet_stream_sent_credits_total" help:"Messages with credit sent."`
	CreditsReceived  uint64 `metric:"bobnet_stream_received_credits_total" help:"Messages with credit received."`
	Abandoned        uint64 `metric:"bobnet_stream_abandoned_total" help:"Streams closed before their last data were acknowledged."`
}

// Stats returns the stream's counters.
func (c *Conn) Stats() Stats {
	c.lock()
	defer c.unlock()
	return c.stats
}

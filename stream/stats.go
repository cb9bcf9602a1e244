package stream

// Stats are the counters of a stream, or the sums over the streams of a Host.
type Stats struct {
	Reads        uint64 `metric:"bobnet_stream_reads_total" help:"Reads that returned data."`
	Writes       uint64 `metric:"bobnet_stream_writes_total" help:"Writes."`
	BytesRead    uint64 `metric:"bobnet_stream_read_bytes_total" help:"Bytes read."`
	BytesWritten uint64 `metric:"bobnet_stream_written_bytes_total" help:"Bytes written."`
	// MessagesSent and MessagesReceived count messages with data. Several writes can share one
	// message.
	MessagesSent     uint64 `metric:"bobnet_stream_sent_messages_total" help:"Messages with data that were sent."`
	MessagesReceived uint64 `metric:"bobnet_stream_received_messages_total" help:"Messages with data that have come."`
	DirectBytes      uint64 `metric:"bobnet_stream_direct_bytes_total" help:"Bytes written that were sent from where they lay."`
	Coalesced        uint64 `metric:"bobnet_stream_coalesced_writes_total" help:"Writes that waited for others, or for room."`
	CreditsSent      uint64 `metric:"bobnet_stream_sent_credits_total" help:"Messages sent that give credit."`
	CreditsReceived  uint64 `metric:"bobnet_stream_received_credits_total" help:"Messages received that give credit."`
	Abandoned        uint64 `metric:"bobnet_stream_abandoned_total" help:"Streams closed whose last data were not acknowledged in time."`
}

// Stats returns the stream's counters.
func (c *Conn) Stats() Stats {
	c.lock()
	defer c.unlock()
	return c.stats
}

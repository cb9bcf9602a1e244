package metrics

import (
	"fmt"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/prometheus/client_golang/prometheus"
)

// StreamHost is what the Collector asks of a host of streams; *stream.Host has it.
type StreamHost interface{ Snapshot() stream.Snapshot }

var streamLabels = []string{"host"}

var streamFields = []field[stream.Snapshot]{
	{"bobnet_stream_open_streams", "Streams that are not closed, or whose last data are still to arrive.", true, func(s *stream.Snapshot) float64 { return float64(s.Open) }},
	{"bobnet_stream_waiting_streams", "Streams that wait to be accepted, half open ones included.", true, func(s *stream.Snapshot) float64 { return float64(streamsWaiting(s)) }},
	{"bobnet_stream_dialed_total", "Streams that were made by Dial.", false, func(s *stream.Snapshot) float64 { return float64(s.Dialed) }},
	{"bobnet_stream_accepted_total", "Streams that were made for others.", false, func(s *stream.Snapshot) float64 { return float64(s.Accepted) }},
	{"bobnet_stream_failed_total", "Attempts to make a stream that failed, either way.", false, func(s *stream.Snapshot) float64 { return float64(s.Failed) }},
	{"bobnet_stream_refused_total", "Messages and requests that broke the rules; each has ended its connection.", false, func(s *stream.Snapshot) float64 { return float64(s.Refused) }},
	{"bobnet_stream_abandoned_total", "Streams closed whose last data were not acknowledged in time.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.Abandoned) }},
	{"bobnet_stream_reads_total", "Reads that returned data.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.Reads) }},
	{"bobnet_stream_writes_total", "Writes.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.Writes) }},
	{"bobnet_stream_read_bytes_total", "Bytes read.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.BytesRead) }},
	{"bobnet_stream_written_bytes_total", "Bytes written.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.BytesWritten) }},
	{"bobnet_stream_direct_bytes_total", "Bytes written that were sent from where they lay.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.DirectBytes) }},
	{"bobnet_stream_coalesced_writes_total", "Writes that waited for others, or for room.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.Coalesced) }},
	{"bobnet_stream_sent_messages_total", "Messages with data that were sent.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.MessagesSent) }},
	{"bobnet_stream_received_messages_total", "Messages with data that have come.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.MessagesReceived) }},
	{"bobnet_stream_sent_credits_total", "Messages sent that give credit.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.CreditsSent) }},
	{"bobnet_stream_received_credits_total", "Messages received that give credit.", false, func(s *stream.Snapshot) float64 { return float64(s.Stats.CreditsReceived) }},
}

func streamsWaiting(s *stream.Snapshot) (n int) {
	for i := range s.Listeners {
		n += s.Listeners[i].Waiting
	}
	return n
}

// WatchStreams adds a host of streams to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchStreams(h StreamHost) (forget func()) { return c.hosts.add(h) }

func (c *Collector) collectStreams(ch chan<- prometheus.Metric) {
	for _, h := range c.hosts.list() {
		s := h.it.Snapshot()
		name := fmt.Sprint(s.Addr)
		emit(ch, c.stream, streamFields, &s, name+c.hosts.distinct(h, name))
	}
}

package reliability

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// SenderCounters are a Sender's counters since Init.
type SenderCounters struct {
	Sent     uint64 // new frames
	Fast     uint64 `metric:"bobnet_vi_retransmissions_total" reason:"fast" help:"a later frame had been acknowledged"`
	Probes   uint64 `metric:"bobnet_vi_retransmissions_total" reason:"probe" help:"the end of a flight was not acknowledged"`
	Timeouts uint64 `metric:"bobnet_vi_retransmissions_total" reason:"timeout" help:"the retransmission timer expired"`
	Needless uint64 `metric:"bobnet_vi_needless_retransmissions_total" help:"Frames retransmitted although the original had arrived, since the VI was connected."`
	Cuts     uint64 `metric:"bobnet_vi_congestion_reactions_total" help:"Reductions of the congestion window because of loss, since the VI was connected."`
	Undone   uint64 // reductions and timeouts that were undone as mistaken
	Invalid  uint64 // acknowledgements of frames that were never sent, or malformed
}

// SenderStats is a snapshot of a Sender.
type SenderStats struct {
	SenderCounters
	InFlight  int           `metric:"bobnet_vi_frames_in_flight" help:"Frames sent and not yet acknowledged."`
	Queued    int           // see Sender.Queued
	Window    float64       `metric:"bobnet_vi_congestion_window_frames" help:"Congestion window."`
	Threshold float64       `metric:"bobnet_vi_slow_start_threshold_frames" help:"Congestion window at which slow start ends."`
	RTT       time.Duration `metric:"bobnet_vi_round_trip_seconds" help:"Smoothed round-trip time." add:"max"`
	Variation time.Duration `metric:"bobnet_vi_round_trip_variation_seconds" help:"Mean deviation of the round-trip time." add:"max"`
	MinRTT    time.Duration `metric:"bobnet_vi_round_trip_minimum_seconds" help:"Smallest round-trip time of the last seconds." add:"max"`
	RTO       time.Duration `metric:"bobnet_vi_retransmission_timeout_seconds" help:"Retransmission timeout, including back-off." add:"max"`
	Tries     int           `metric:"bobnet_vi_unanswered_timeouts" help:"Retransmission timeouts since the peer last acknowledged anything." add:"max"`
}

// Stats returns a snapshot.
func (s *Sender) Stats() SenderStats {
	return SenderStats{
		SenderCounters: s.stats,
		InFlight:       s.InFlight(),
		Queued:         s.Queued(),
		Window:         float64(s.cc.window) / oneFrame,
		Threshold:      float64(s.cc.threshold) / oneFrame,
		RTT:            time.Duration(s.rtt.smoothed),
		Variation:      time.Duration(s.rtt.variation),
		MinRTT:         time.Duration(s.rtt.smallest),
		RTO:            time.Duration(min(s.rtt.rto<<s.rec.backoff, s.cfg.MaxRTO)),
		Tries:          int(s.rec.tries),
	}
}

// Times returns the times of the first and the last transmission of the frame seq, which must be in
// flight, and whether it has been acknowledged selectively. first is inexact by at most 33 µs for
// each retransmission.
func (s *Sender) Times(seq ethertype.Seq) (first, last int64, acked bool) {
	f := s.ring.at(seq)
	return f.sentAt - int64(f.waited)*waitUnit, f.sentAt, f.state == stateAcked
}

package reliability

import "time"

// SenderCounters is what a Sender has counted since Init.
type SenderCounters struct {
	Sent     uint64 // new frames
	Fast     uint64 // frames sent again because one sent later had arrived
	Probes   uint64 // frames sent again as a tail probe
	Timeouts uint64 // frames sent again after a retransmission time-out
	Needless uint64 // frames sent again and acknowledged too soon for it
	Cuts     uint64 // reactions of the congestion window to loss
	Undone   uint64 // of these and of time-outs, taken back as mistaken
	Invalid  uint64 // acknowledgements of what was never sent, or malformed
}

// SenderStats is a snapshot of a Sender.
type SenderStats struct {
	SenderCounters
	InFlight  int           // as Sender.InFlight
	Queued    int           // as Sender.Queued
	Window    float64       // congestion window in frames; below 1, frames are paced
	RTT       time.Duration // smoothed round-trip time, 0 before the first sample
	Variation time.Duration // its mean deviation
	MinRTT    time.Duration // smallest of the last seconds
	RTO       time.Duration // retransmission time-out, back-off included
	Tries     int           // time-outs since anything was acknowledged
	OldestAt  int64         // when the frame Una was sent last, 0 when none is in flight
	HeardAt   int64         // when the peer was last heard, or the first frame sent if it never was
}

// Stats returns a snapshot.
func (s *Sender) Stats() SenderStats {
	st := SenderStats{
		SenderCounters: s.stats,
		InFlight:       s.InFlight(),
		Queued:         s.Queued(),
		Window:         float64(s.cc.window) / oneFrame,
		RTT:            time.Duration(s.rtt.smoothed),
		Variation:      time.Duration(s.rtt.variation),
		MinRTT:         time.Duration(s.rtt.smallest),
		RTO:            time.Duration(min(s.rtt.rto<<s.rec.backoff, s.cfg.MaxRTO)),
		Tries:          int(s.rec.tries),
		HeardAt:        s.heardAt,
	}
	if st.InFlight > 0 {
		st.OldestAt = s.ring.at(s.una).sentAt
	}
	return st
}

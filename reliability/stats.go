package reliability

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

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

// Add adds t's counters to c.
func (c *SenderCounters) Add(t *SenderCounters) {
	c.Sent += t.Sent
	c.Fast += t.Fast
	c.Probes += t.Probes
	c.Timeouts += t.Timeouts
	c.Needless += t.Needless
	c.Cuts += t.Cuts
	c.Undone += t.Undone
	c.Invalid += t.Invalid
}

// SenderStats is a snapshot of a Sender.
type SenderStats struct {
	SenderCounters
	InFlight  int           // as Sender.InFlight
	Queued    int           // as Sender.Queued
	Window    float64       // congestion window in frames; below 1, frames are paced
	Threshold float64       // window in frames at which slow start ends
	RTT       time.Duration // smoothed round-trip time, 0 before the first sample
	Variation time.Duration // its mean deviation
	MinRTT    time.Duration // smallest of the last 10 to 20 s
	RTO       time.Duration // retransmission time-out, back-off included
	Tries     int           // time-outs since anything was acknowledged
	FirstAt   int64         // when the frame Una was sent first, to 33 us for each time it was sent again; 0 when none is in flight
	OldestAt  int64         // when it was sent last, 0 when none is in flight
	HeardAt   int64         // when the peer was last heard, or the first frame sent if it never was
}

// Stats returns a snapshot.
func (s *Sender) Stats() SenderStats {
	st := SenderStats{
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
		HeardAt:        s.heardAt,
	}
	if st.InFlight > 0 {
		st.FirstAt, st.OldestAt, _ = s.Times(s.una)
	}
	return st
}

// Times returns when the frame seq, which must be in flight, was sent first
// and last, as precisely as SenderStats says, and whether it has been
// acknowledged selectively.
func (s *Sender) Times(seq ethertype.Seq) (first, last int64, acked bool) {
	f := s.ring.at(seq)
	return f.sentAt - int64(f.waited)*waitUnit, f.sentAt, f.state == stateAcked
}

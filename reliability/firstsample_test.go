package reliability_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
)

// TestFirstSample: what is acknowledged first shows a round trip of several milliseconds, because
// acknowledgements were lost for so long, and everything behind it has to go again. That takes no
// time-out for each frame, which the true round trip of 20 us would be too short for.
func TestFirstSample(t *testing.T) {
	const frames, rtt = 10, int64(20 * time.Microsecond)
	for _, silence := range []time.Duration{5 * time.Millisecond, 12 * time.Millisecond} { // probes, and a time-out
		var s reliability.Sender
		s.Init(nil, 0)
		now := int64(time.Second)
		for range frames {
			s.Push(now, reliability.Sent{Count: 1}, false)
		}
		wait := func() {
			if now = s.Deadline(); s.OnTimer(now) != nil {
				t.Fatal("the peer is given up")
			}
		}
		for end := now + int64(silence); s.Deadline() < end; s.Retransmit(now) {
			wait()
		}
		s.OnAck(now+rtt, 2, 0, nil) // of the first, which may have gone again, and the second, which has not
		begun := now
		for s.InFlight() > 0 {
			switch _, seq, again := s.Retransmit(now); {
			case !again:
				wait()
			case seq == s.Una(): // the only one that the peer takes
				now += rtt
				s.OnAck(now, seq+1, 0, nil)
			}
		}
		if took := time.Duration(now - begun); took > 100*time.Millisecond {
			t.Errorf("after %v of silence: %d frames took %v", silence, frames-2, took)
		}
	}
}

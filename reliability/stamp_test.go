package reliability_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// TestStamp: a lone frame may be recorded at a time long past and stamped when
// it has gone; its timer and its round-trip time count from the stamp.
func TestStamp(t *testing.T) {
	const stale, sent, rtt = int64(1), int64(time.Second), int64(20 * time.Microsecond)
	var s reliability.Sender
	s.Init(nil, 7)
	s.Push(stale, reliability.Sent{Count: 1}, false)
	s.Stamp(sent)
	if at := s.Deadline(); at <= sent {
		t.Errorf("the timer is due at %v, before the frame was sent", time.Duration(at))
	}
	if progress, valid := s.OnAck(sent+rtt, 8, 0, nil); !progress || !valid {
		t.Fatal("the acknowledgement was not taken")
	}
	if got := s.Stats().RTT; int64(got) != rtt {
		t.Errorf("round-trip time %v, want %v", got, time.Duration(rtt))
	}
}

// TestStampNotAlone: a stamp does not touch the frames of a longer flight.
func TestStampNotAlone(t *testing.T) {
	var s reliability.Sender
	s.Init(nil, 7)
	s.Push(1000, reliability.Sent{Count: 1}, false)
	s.Push(1000, reliability.Sent{Count: 1}, false)
	before := s.Deadline()
	s.Stamp(int64(time.Second))
	if s.Deadline() != before {
		t.Error("the stamp moved the timer of a flight of two")
	}
}

// TestCovers lists which acknowledgements can be true.
func TestCovers(t *testing.T) {
	var s reliability.Sender
	s.Init(nil, 7)
	s.Push(1000, reliability.Sent{Count: 1}, false)
	s.Push(1000, reliability.Sent{Count: 1}, false)
	s.OnAck(2000, 8, 0, nil)
	for ack, want := range map[uint32]bool{7: false, 8: true, 9: true, 10: false} {
		if got := s.Covers(ethertype.Seq(ack)); got != want {
			t.Errorf("Covers(%d) = %v, want %v", ack, got, want)
		}
	}
}

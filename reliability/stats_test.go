package reliability

import (
	"reflect"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// However often the oldest frame goes again, Times tells when it went first.
func TestOldestSentFirst(t *testing.T) {
	const pushedAt = int64(time.Second)
	var s Sender
	s.Init(&Config{MaxTries: 100}, 7)
	s.Push(pushedAt, Sent{}, false)
	s.Push(pushedAt+1000, Sent{}, false)
	now, again := pushedAt, 0
	for again < 20 {
		now = s.Deadline()
		if err := s.OnTimer(now); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := s.Retransmit(now); ok; _, _, ok = s.Retransmit(now) {
			again++
		}
	}
	first, last, _ := s.Times(s.una)
	if off := first - pushedAt; off < -20*waitUnit || off > 20*waitUnit {
		t.Errorf("after %d retransmissions in %v the oldest frame was sent first at %v, want %v",
			again, time.Duration(now-pushedAt), time.Duration(first), time.Duration(pushedAt))
	}
	if last <= pushedAt {
		t.Errorf("the oldest frame was sent last at %v, want later than %v", time.Duration(last), time.Duration(pushedAt))
	}
	if _, valid := s.OnAck(now+1, ethertype.Seq(9), 0, nil); !valid {
		t.Fatal("the acknowledgement of both is refused")
	}
	s.Push(now+2, Sent{}, false)
	if first, last, _ := s.Times(s.una); first != now+2 || last != now+2 {
		t.Errorf("a new frame in the same slot was sent at %d and %d, want %d", first, last, now+2)
	}
}

// A slot of the ring stays within 40 bytes: a connection keeps at least 64.
func TestSlotSize(t *testing.T) {
	if got := int(reflect.TypeFor[frame]().Size()); got > 40 {
		t.Errorf("a slot takes %d bytes, want at most 40", got)
	}
}

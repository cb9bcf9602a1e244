package reliability

import (
	"errors"
	"testing"
	"time"
)

// TestUserTimeout: tries alone end a connection no sooner than the user timeout,
// whether the peer is silent or is heard and acknowledges nothing; and when that is
// over, tries do.
func TestUserTimeout(t *testing.T) {
	for _, heard := range []bool{false, true} {
		for _, timeout := range []time.Duration{time.Second, 5 * time.Minute, 100 * time.Hour} {
			var s Sender
			s.Init(&Config{MaxTries: 4}, 0)
			s.SetUserTimeout(int64(timeout))
			now := int64(1)
			s.Push(now, Sent{}, false)
			var err error
			for err == nil {
				now = s.Deadline()
				err = s.OnTimer(now)
				s.Retransmit(now)
				if heard {
					s.heard(now)
				}
			}
			if !errors.Is(err, ErrUnreachable) {
				t.Fatal(err)
			}
			if took := time.Duration(now - 1); took < timeout || took > timeout+20*time.Second {
				t.Errorf("heard %v, user timeout %v: given up after %v", heard, timeout, took)
			}
		}
	}
}

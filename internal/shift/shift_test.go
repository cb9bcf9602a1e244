package shift

import (
	"testing"
	"time"
)

// TestShift: the shift of a goroutine that looks often is over before ten milliseconds
// have passed, and not much more often.
func TestShift(t *testing.T) {
	var s Shift
	last, times := int64(0), 0
	for at := int64(0); at < int64(time.Second); at += int64(700 * time.Microsecond) {
		if s.Over(at) {
			last = at
			times++
		}
		if at-last > int64(9*time.Millisecond) {
			t.Fatalf("at %v the last shift began %v ago", time.Duration(at), time.Duration(at-last))
		}
	}
	if times > 130 {
		t.Errorf("%d shifts in a second", times)
	}
}

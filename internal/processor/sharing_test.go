package processor

import (
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestSharing: a thread migrates after two bursts in succession for which it has waited long. If it still
// waits then, it migrates after growing pauses.
func TestSharing(t *testing.T) {
	const long, short = LongWait, LongWait - 1
	var s Sharing
	now := int64(0)
	for i, c := range []struct {
		after, waited int64
		moves         bool
	}{
		{0, long, false},
		{1000, short, false},
		{1000, long, false}, // not in succession
		{1000, long, true},
		{1000, long, false},
		{1000, long, false}, // it has just migrated
		{pauseMin, long, true},
		{pauseMin, long, false},
		{pauseMin - 1000, long, false}, // the second pause is longer
		{1000, long, true},
		{2*pauseMax + 1, short, false},
		{1000, long, false},
		{1000, long, true},
		{pauseMin, long, false}, // the first pause again
		{1000, long, true},
	} {
		now += c.after
		if moves := s.Sent(now, c.waited); moves != c.moves {
			t.Fatalf("burst %d, after a wait of %d ns at %d: migrate is %v, want %v", i, c.waited, now, moves, c.moves)
		}
	}
}

// TestDelay: only a reading of the same thread counts as the previous one. Readings allocate nothing.
func TestDelay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var d Delay
	defer d.Close()
	if _, ok := d.Since(); ok {
		t.Error("the first reading has a predecessor")
	}
	if d.broken {
		need.Skip(t, "a kernel that measures scheduling delays")
	}
	if ns, ok := d.Since(); !ok || ns < 0 {
		t.Errorf("the second reading is %d, %v", ns, ok)
	}
	if n := testing.AllocsPerRun(100, func() { d.Since() }); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
	other := make(chan bool)
	go func() {
		runtime.LockOSThread() // not the test's thread
		defer runtime.UnlockOSThread()
		_, ok := d.Since()
		other <- ok
	}()
	if <-other {
		t.Error("the reading of another thread has a predecessor")
	}
}

func TestParseDelay(t *testing.T) {
	for line, want := range map[string]int64{"5 17 3\n": 17, "0 0 0\n": 0, "": -1, "5": -1, "5 17": -1, "5 x 3\n": -1} {
		if ns, ok := parseDelay([]byte(line)); ok != (want >= 0) || ok && ns != want {
			t.Errorf("%q: %d, %v", line, ns, ok)
		}
	}
}

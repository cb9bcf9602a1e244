package progress

import (
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// TestSqueezed: who has found another thread on its processor twice in succession is
// to migrate, and not again at once.
func TestSqueezed(t *testing.T) {
	const long, short = yieldLong, yieldLong - 1
	var s spinner
	s.init(0, false, false)
	now := int64(stayFor)
	for i, c := range []struct {
		after, took int64
		share       bool
	}{
		{0, long, false},
		{1000, short, false},
		{1000, long, false}, // not in succession
		{1000, long, true},
		{1000, long, false},
		{1000, long, false}, // it has only just migrated
		{stayFor, long, true},
		{stayFor, short, false},
		{1000, long, false},
		{1000, long, true},
	} {
		now += c.after
		if share, _ := s.yielded(now, c.took); share != c.share {
			t.Fatalf("yield %d, of %d ns at %d: migrate is %v, want %v", i, c.took, now, share, c.share)
		}
	}
}

// TestMigrate: the thread is on another processor then, and may run on all those on
// which it might before.
func TestMigrate(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		need.Skip(t, "two processors that this process may run on")
	}
	moved := false
	for range 1000 { // the kernel may take the thread back at any time
		here, ok := processor()
		if !ok {
			t.Fatal("the system does not tell on which processor a thread is")
		}
		migrate()
		if there, _ := processor(); there != here {
			moved = true
			break
		}
	}
	if !moved {
		t.Error("a thousand migrations have led nowhere")
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("the thread may run on %v, and might on %v", after, before)
	}
}

// TestMigratePinned: a thread that may run on one processor only stays there.
func TestMigratePinned(t *testing.T) {
	runtime.LockOSThread() // and the thread ends with the goroutine
	var one, after unix.CPUSet
	here, _ := processor()
	one.Set(here)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	migrate()
	if err := unix.SchedGetaffinity(0, &after); err != nil {
		t.Fatal(err)
	}
	if after != one {
		t.Errorf("the thread may run on %v, and might on %v", after, one)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "1-2,7": {1, 2, 7}, "5,0": {0, 5}, "999999": {}} {
		set, ok := parseCPUs(list)
		if !ok || set.Count() != len(want) {
			t.Errorf("%q: %v, %v", list, set, ok)
		}
		for _, cpu := range want {
			if !set.IsSet(cpu) {
				t.Errorf("%q: %d is missing", list, cpu)
			}
		}
	}
	for _, list := range []string{"", "x", "1-", "-1", "1,,2", "1-x"} {
		if set, ok := parseCPUs(list); ok {
			t.Errorf("%q is %v", list, set)
		}
	}
}

// TestNearby: this machine's processors of one package hold the one that was asked
// for, and no others than there are.
func TestNearby(t *testing.T) {
	var set, all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	set = all
	here, _ := processor()
	nearby(here, &set)
	if !set.IsSet(here) {
		t.Errorf("processor %d is not near itself: %v", here, set)
	}
	for i := range 1024 {
		if set.IsSet(i) && !all.IsSet(i) {
			t.Errorf("processor %d has come to %v", i, all)
		}
	}
}

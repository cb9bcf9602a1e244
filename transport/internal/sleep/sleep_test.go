package sleep

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

// poll waits and fails the test if there is nothing to wait for.
func poll(t *testing.T, s *Sleeper, until int64) {
	t.Helper()
	if !s.begin() {
		t.Fatal("a wake-up has come before")
	}
	defer s.end()
	if err := s.Poll(until, now); err != nil {
		t.Fatal(err)
	}
}

func TestSleeper(t *testing.T) {
	var s Sleeper
	r, w := pipe(t)
	other, ring := pipe(t)
	if err := s.Open(-1, r); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	until := now() + int64(time.Millisecond)
	poll(t, &s, until)
	if at := now(); at < until {
		t.Errorf("the wait ended %d ns early", until-at)
	}
	unix.Write(w, []byte{1})
	poll(t, &s, transport.Forever)
	if s.Events(0) != 0 || s.Events(1) != unix.POLLIN {
		t.Errorf("events %#x, %#x", s.Events(0), s.Events(1))
	}
	unix.Read(r, make([]byte, 1))

	s.Watch(other)
	unix.Write(ring, []byte{1})
	poll(t, &s, transport.Forever)
	s.Watch(-1)
	poll(t, &s, now()+1000) // the watch has ended: only the time is up
	if s.found(atOther).Revents != 0 {
		t.Error("a descriptor is watched that should not be")
	}

	s.Wake()
	s.Wake()
	if s.begin() {
		t.Error("a wake-up before the wait was lost")
	}
	poll(t, &s, now()+1000)
}

// TestWakeDuring wakes a goroutine that is in ppoll, or about to be.
func TestWakeDuring(t *testing.T) {
	var s Sleeper
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 200 {
		done := make(chan bool)
		begun := make(chan bool)
		go func() {
			ok := s.begin()
			begun <- ok
			if ok {
				ok = s.Poll(transport.Forever, now) == nil
				s.end()
			}
			done <- ok
		}()
		if !<-begun {
			t.Fatal("a wake-up came twice")
		}
		s.Wake()
		if !<-done {
			t.Fatal("Poll failed")
		}
	}
}

// TestWakeLate has a Wake that has changed the state, and writes only when the
// wait is over: one of the next waits ends early, and not all of them.
func TestWakeLate(t *testing.T) {
	var s Sleeper
	r, w := pipe(t)
	if err := s.Open(r); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unix.Write(w, []byte{1})
	if !s.begin() {
		t.Fatal("a wake-up has come before")
	}
	if s.state.Swap(woken) != waiting { // what Wake does first
		t.Fatal("nobody waits")
	}
	if err := s.Poll(transport.Forever, now); err != nil {
		t.Fatal(err)
	}
	s.end()
	unix.Read(r, make([]byte, 1))
	unix.Write(s.event, one) // what it does then
	until := now() + int64(10*time.Millisecond)
	poll(t, &s, until)
	if poll(t, &s, until); now() < until {
		t.Error("two waits have ended early")
	}
}

// TestTimerStays: the timer is set again only for a wait that ends before it fires, and for
// the first one after that.
func TestTimerStays(t *testing.T) {
	var s Sleeper
	r, w := pipe(t)
	if err := s.Open(r); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unix.Write(w, []byte{1})
	first := now() + int64(time.Hour)
	for _, c := range []struct{ until, want int64 }{
		{transport.Forever, 0},
		{first, first},
		{first + 1, first},
		{transport.Forever, first},
		{first - 1, first - 1},
	} {
		if poll(t, &s, c.until); s.alarm.at != c.want {
			t.Errorf("a wait until %d sets the timer to %d, not %d", c.until, s.alarm.at, c.want)
		}
	}
	unix.Read(r, make([]byte, 1))
	soon := now() + int64(time.Millisecond)
	poll(t, &s, soon)
	if s.alarm.at != 0 || now() < soon {
		t.Errorf("at %d the timer is set to %d, after a wait until %d", now(), s.alarm.at, soon)
	}
	// It fires for a wait that has ended. The next one is no shorter for that.
	unix.Write(w, []byte{1})
	poll(t, &s, now()+int64(time.Millisecond))
	unix.Read(r, make([]byte, 1))
	until := now() + int64(5*time.Millisecond)
	if poll(t, &s, until); now() < until {
		t.Errorf("the wait ended %d ns early", until-now())
	}
}

// TestNoAllocations: a wait allocates nothing, also if its timer fires.
func TestNoAllocations(t *testing.T) {
	var s Sleeper
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := testing.AllocsPerRun(20, func() { poll(t, &s, now()+int64(time.Millisecond)) }); n != 0 {
		t.Errorf("%v allocations in a wait", n)
	}
}

// Package sleep lets a goroutine wait for descriptors outside Go's netpoller. The netpoller would
// round shorter waits up to a millisecond, and add a thread switch to each wait.
package sleep

import (
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/shift"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// The values of Sleeper.state.
const (
	idle    = iota
	waiting // a goroutine is in ppoll, or about to be
	woken   // Wake was called; the current or the next wait returns
)

// Sleeper is the waiting half of a link. One goroutine at a time waits, and any goroutine may call
// Wake. The link must not close the Sleeper during either.
type Sleeper struct {
	event int // an eventfd: written to end a ppoll
	timer int // a timerfd
	state atomic.Int32
	other atomic.Int32  // one more than an additional descriptor to watch; 0: none
	fds   []unix.PollFd // arguments of ppoll: those of Open, then the others, see below
	alarm alarm
	shift shift.Shift
	count [8]byte // destination of reads in drain: on the stack it would be allocated
}

// Positions of the last descriptors of Sleeper.fds, counted from its end.
const (
	atOther = 1 + iota
	atTimer
	atEvent
)

// alarm is the setting of a Sleeper's timer. A timeout of ppoll would be set and cancelled in each
// call. On a virtual machine, each of these exits to the hypervisor: a message that wakes a sleeper
// takes 13.3 us with a timeout and 10.2 us with the timer. So the timer is not changed while it
// fires before the wait ends. When it fires, at most one wait finds that there is time left, and
// sets it again.
type alarm struct {
	at   int64 // when the timer fires, by the clock of Poll; 0 if it is not set
	spec unix.ItimerSpec
}

// serves reports whether the timer wakes a wait that ends at until, at that time or before.
func (a *alarm) serves(until int64) bool { return a.at != 0 && a.at <= until }

// Open prepares a Sleeper that waits for input on fds. The kernel ignores negative descriptors.
func (s *Sleeper) Open(fds ...int) (err error) {
	if s.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		unix.Close(s.event)
		return err
	}
	for _, fd := range append(fds, s.event, s.timer, -1) {
		s.fds = append(s.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return nil
}

// Watch makes polls also end when fd becomes readable, from the next wait on. A negative fd ends
// this.
func (s *Sleeper) Watch(fd int) { s.other.Store(int32(max(fd, -1)) + 1) }

// Close closes the descriptors that Open has opened. No goroutine may wait or call Wake.
func (s *Sleeper) Close() {
	if s.fds != nil {
		unix.Close(s.event)
		unix.Close(s.timer)
		s.fds = nil
	}
}

var one = []byte{0: 1, 7: 1} // an eventfd accepts 8 bytes; in either byte order the value is positive

// Wake ends the current or the next wait. It makes a system call only if a goroutine waits.
func (s *Sleeper) Wake() {
	if s.state.Load() != woken && s.state.Swap(woken) == waiting {
		unix.Write(s.event, one)
	}
}

// begin starts a wait. If Wake was called before, it starts none and returns false. The caller
// checks everything else that ends a wait between begin and Poll.
func (s *Sleeper) begin() bool {
	if s.state.CompareAndSwap(idle, waiting) {
		return true
	}
	s.state.Store(idle)
	return false
}

// end ends a wait that begin has started. It does not read the eventfd, because Wake may have
// changed the state and not have written yet. The next Poll then ends at once, and reads the
// eventfd.
func (s *Sleeper) end() { s.state.Store(idle) }

// Poll blocks until a descriptor has input or an error, Wake is called, or now
// reaches until. Events then reports what was found.
func (s *Sleeper) Poll(until int64, now func() int64) error {
	at := now()
	s.shift.Pass(at)
	s.found(atOther).Fd = s.other.Load() - 1
	for i := range s.fds {
		s.fds[i].Revents = 0
	}
	for {
		if until != transport.Forever && !s.alarm.serves(until) {
			if until <= at {
				return nil
			}
			if err := s.setTimer(until, at); err != nil {
				return err
			}
		}
		n, err := unix.Ppoll(s.fds, nil, nil)
		if err == unix.EINTR {
			at = now()
			continue
		}
		if s.found(atEvent).Revents != 0 {
			s.drain(s.event)
		}
		if s.found(atTimer).Revents == 0 {
			return err
		}
		s.drain(s.timer)
		s.alarm.at = 0
		if at = now(); n > 1 || until <= at {
			return err
		}
	}
}

// setTimer makes the timer fire at until. at is the current time of the same clock.
func (s *Sleeper) setTimer(until, at int64) error {
	s.alarm.at = until
	s.alarm.spec.Value = unix.NsecToTimespec(until - at)
	return unix.TimerfdSettime(s.timer, 0, &s.alarm.spec, nil)
}

// found returns the descriptor at a position from the end of fds, with the events that ppoll found.
func (s *Sleeper) found(place int) *unix.PollFd { return &s.fds[len(s.fds)-place] }

// drain reads the counter of an eventfd or a timerfd.
func (s *Sleeper) drain(fd int) { unix.Read(fd, s.count[:]) }

// Events returns the events that the last Poll found at descriptor i of Open. Only the goroutine
// that waited may call it.
func (s *Sleeper) Events(i int) int16 { return s.fds[i].Revents }

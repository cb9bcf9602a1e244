// Package sleep lets a goroutine wait for descriptors outside Go's netpoller,
// which would round waits below a millisecond up to one and add a thread
// switch to each.
package sleep

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/shift"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// What Sleeper.state says.
const (
	idle    = iota
	waiting // a goroutine is in ppoll, or about to be
	woken   // Wake was called; the current or the next wait returns
)

// Sleeper is the waiting half of a link: one goroutine waits at a time, any
// goroutine may call Wake. A link keeps it from being closed under either.
type Sleeper struct {
	event int // an eventfd: written to end a ppoll
	state atomic.Int32
	other atomic.Int32  // one more than a descriptor to watch besides; 0: none
	fds   []unix.PollFd // arguments of ppoll: those of Open, the eventfd, and other
	limit unix.Timespec
	shift shift.Shift
}

// Open prepares a Sleeper that waits for input on fds. The kernel passes over
// those that are negative.
func (s *Sleeper) Open(fds ...int) (err error) {
	if s.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	for _, fd := range append(fds, s.event, -1) {
		s.fds = append(s.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return nil
}

// Watch has polls end, from the next wait on, when fd can be read too. A
// negative fd ends the watch.
func (s *Sleeper) Watch(fd int) { s.other.Store(int32(max(fd, -1)) + 1) }

// Close closes what Open has opened, if anything. No goroutine waits or calls Wake.
func (s *Sleeper) Close() {
	if s.fds != nil {
		unix.Close(s.event)
		s.fds = nil
	}
}

var one = []byte{0: 1, 7: 1} // an eventfd takes 8 bytes, in either byte order more than 0

// Wake ends the current or the next wait. It makes a system call only if
// somebody waits.
func (s *Sleeper) Wake() {
	if s.state.Load() != woken && s.state.Swap(woken) == waiting {
		unix.Write(s.event, one)
	}
}

// begin starts a wait. It reports false, and starts none, if Wake was called before. The
// caller checks everything else that ends a wait between begin and Poll.
func (s *Sleeper) begin() bool {
	if s.state.CompareAndSwap(idle, waiting) {
		return true
	}
	s.state.Store(idle)
	return false
}

// end ends a wait that begin has started. It does not read the eventfd, because Wake may
// have changed the state and not have written yet. What it writes ends the next Poll,
// which reads it.
func (s *Sleeper) end() { s.state.Store(idle) }

// Poll blocks until a descriptor has input or an error, Wake is called, or now
// reaches until. Events then says what was found.
func (s *Sleeper) Poll(until int64, now func() int64) error {
	s.shift.Pass(now())
	s.fds[len(s.fds)-1].Fd = s.other.Load() - 1
	for i := range s.fds {
		s.fds[i].Revents = 0
	}
	for {
		var limit *unix.Timespec
		if until != transport.Forever {
			left := until - now()
			if left <= 0 {
				return nil
			}
			s.limit = unix.NsecToTimespec(min(left, int64(time.Hour)))
			limit = &s.limit
		}
		n, err := unix.Ppoll(s.fds, limit, nil)
		if err == unix.EINTR || err == nil && n == 0 {
			continue // a signal, or the time is up, which the loop finds
		}
		if s.fds[len(s.fds)-2].Revents != 0 { // the eventfd
			var b [8]byte
			unix.Read(s.event, b[:])
		}
		return err
	}
}

// Events returns what the last Poll found at descriptor i of Open's. It is for
// the goroutine that waited.
func (s *Sleeper) Events(i int) int16 { return s.fds[i].Revents }

package ring

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"golang.org/x/sys/unix"
)

// What waiter.state says.
const (
	idle    = iota
	waiting // a goroutine is in ppoll, or about to be
	woken   // Wake was called; the current or the next Wait returns
)

// waiter blocks a goroutine in ppoll, outside Go's netpoller, which would
// round waits below a millisecond up to one and add a thread switch to each.
type waiter struct {
	event int // an eventfd: written to end a ppoll
	state atomic.Int32
	fds   [2]unix.PollFd // arguments of ppoll; of the one that waits
	limit unix.Timespec
}

func (w *waiter) open() (err error) {
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		w.event = -1
	}
	return err
}

// Wake implements transport.Link. It makes a system call only if somebody
// waits.
func (l *Link) Wake() {
	if !l.gate.Enter() {
		return
	}
	l.cnt.Wakes.Add(1)
	l.wait.wake()
	l.gate.Leave()
}

var one = []byte{0: 1, 7: 1} // an eventfd takes 8 bytes, in either byte order more than 0

func (w *waiter) wake() {
	if w.state.Load() != woken && w.state.Swap(woken) == waiting {
		unix.Write(w.event, one)
	}
}

// drain takes a wake-up that has been used out of the eventfd.
func (w *waiter) drain() {
	var b [8]byte
	unix.Read(w.event, b[:])
}

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	w := &l.wait
	if !w.state.CompareAndSwap(idle, waiting) {
		w.state.Store(idle)
		return nil
	}
	err := l.poll(until)
	if w.state.Swap(idle) == woken {
		w.drain()
	}
	if !l.gate.Open() {
		return transport.ErrClosed
	}
	return err
}

// poll blocks until a frame, a wake-up or the time until.
func (l *Link) poll(until int64) error {
	w := &l.wait
	// Close shuts the gate before it wakes, so one of the two is seen here.
	if l.Ready() || !l.gate.Open() {
		return nil
	}
	l.cnt.Waits.Add(1)
	for {
		var limit *unix.Timespec
		if until != transport.Forever {
			left := until - afpacket.Now()
			if left <= 0 {
				return nil
			}
			w.limit = unix.NsecToTimespec(min(left, int64(time.Hour)))
			limit = &w.limit
		}
		w.fds = [2]unix.PollFd{
			{Fd: int32(l.rx.fd), Events: unix.POLLIN},
			{Fd: int32(w.event), Events: unix.POLLIN},
		}
		n, err := unix.Ppoll(w.fds[:], limit, nil)
		switch {
		case err == unix.EINTR || err == nil && n == 0:
			continue // a signal, or the time is up, which the loop finds
		case err != nil:
			return err
		case w.fds[0].Revents&unix.POLLERR != 0:
			return l.socketError()
		}
		return nil
	}
}

// socketError takes the pending error of the receiving socket: the interface
// went down or away.
func (l *Link) socketError() error {
	switch errno, _ := unix.GetsockoptInt(l.rx.fd, unix.SOL_SOCKET, unix.SO_ERROR); unix.Errno(errno) {
	case 0:
		return nil
	case unix.ENETDOWN, unix.ENODEV, unix.ENXIO:
		return transport.ErrLinkDown
	default:
		return unix.Errno(errno)
	}
}

package packet

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// waiting is the state that Wait and Wake share.
type waiting struct {
	mu     sync.Mutex
	within bool // a goroutine waits
	woken  bool // Wake was called; the current or the next Wait returns
	poll   poll // poll of the waiting goroutine
	cause  error
}

// Wake implements transport.Link.
func (l *socket) Wake() {
	if !l.gate.Enter() {
		return
	}
	l.count.Wakes.Add(1)
	l.wake()
	l.gate.Leave()
}

// wake ends a wait by moving its deadline into the past.
func (l *socket) wake() {
	w := &l.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.within {
		_ = l.conn.SetReadDeadline(longAgo)
	}
}

// Wait implements transport.Link. It waits in the netpoller.
func (l *socket) Wait(until int64) error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	w := &l.wait
	if !l.begin(until) {
		return l.openOr(nil)
	}
	w.cause = nil
	err := l.raw.Read(l.look)
	w.mu.Lock()
	w.within, w.woken = false, false
	w.mu.Unlock()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		err = w.cause
	}
	return l.openOr(err)
}

// begin starts a wait unless a wake-up came before it.
func (l *socket) begin(until int64) bool {
	var deadline time.Time // zero: none
	if until != transport.Forever {
		deadline = time.Now().Add(time.Duration(until - driver.Now()))
	}
	w := &l.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken {
		w.woken = false
		return false
	}
	w.within = true
	l.count.Waits.Add(1)
	_ = l.conn.SetReadDeadline(deadline)
	return true
}

// look ends the wait if the socket is readable or has an error. The netpoller
// calls it at the beginning and whenever the socket has changed.
func (l *socket) look(fd uintptr) bool {
	p := &l.wait.poll
	p.look(fd)
	if p.events&unix.POLLERR != 0 {
		errno, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		_, l.wait.cause = driver.SendVerdict(unix.Errno(errno))
	}
	return p.events != 0
}

// openOr returns err, or ErrClosed if the link has been closed.
func (l *socket) openOr(err error) error {
	if !l.gate.Open() {
		return transport.ErrClosed
	}
	return err
}

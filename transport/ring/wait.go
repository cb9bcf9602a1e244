package ring

import (
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"golang.org/x/sys/unix"
)

// Wake implements transport.Link. It makes a system call only if somebody
// waits.
func (l *Link) Wake() {
	if !l.gate.Enter() {
		return
	}
	l.cnt.Wakes.Add(1)
	l.wait.Wake()
	l.gate.Leave()
}

// Watch implements transport.Watcher.
func (l *Link) Watch(fd int) { l.wait.Watch(fd) }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	var err error
	if l.wait.Begin() {
		err = l.poll(until)
		l.wait.End()
	}
	if !l.gate.Open() {
		return transport.ErrClosed
	}
	return err
}

// poll blocks until a frame, a wake-up or the time until.
func (l *Link) poll(until int64) error {
	// Close shuts the gate before it wakes, so one of the two is seen here.
	if l.Ready() || !l.gate.Open() {
		return nil
	}
	l.cnt.Waits.Add(1)
	l.wait.Set(1, int(l.bulk.pollable()))
	err := l.wait.Poll(until, afpacket.Now)
	if err == nil && l.wait.Events(0)&unix.POLLERR != 0 {
		return l.socketError()
	}
	return err
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

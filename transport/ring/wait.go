package ring

import (
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Wake implements transport.Link. It makes a system call only if a goroutine waits.
func (l *Link) Wake() { l.wait.Wake() }

// Watch makes Wait also end when fd becomes readable. A negative fd stops watching.
func (l *Link) Watch(fd int) { l.wait.Watch(fd) }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error { return l.wait.Wait(until, l.Ready, l.poll) }

// poll blocks until a frame arrives, Wake is called or the clock reaches until.
func (l *Link) poll(until int64) error {
	err := l.wait.Poll(until, driver.Now)
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

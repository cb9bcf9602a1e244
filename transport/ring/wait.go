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
	for i, fd := range [...]int{l.rx.fd, l.long.rx.fd} { // in the order in which Open creates them
		if err == nil && l.wait.Events(i)&unix.POLLERR != 0 {
			err = socketError(fd)
		}
	}
	return err
}

// socketError returns and clears the pending error of a receiving socket: the interface went down
// or was deleted.
func socketError(fd int) error {
	switch errno, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); unix.Errno(errno) {
	case 0:
		return nil
	case unix.ENETDOWN, unix.ENODEV, unix.ENXIO:
		return transport.ErrLinkDown
	default:
		return unix.Errno(errno)
	}
}

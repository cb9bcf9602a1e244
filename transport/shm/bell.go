package shm

import (
	"golang.org/x/sys/unix"
)

// bell is how others wake a link that sleeps in poll, where a futex does not
// reach it: a pair of datagram sockets. Others have the ringing end. A socket
// and not an eventfd, because a send can be told never to block and they
// cannot take out what somebody else has put in, whatever they do to the
// descriptor that they share.
type bell struct {
	hear int
	ring int
}

// silent is the bell of a link that nobody calls.
var silent = bell{-1, -1}

func (b *bell) open() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		b.hear, b.ring = fds[0], fds[1]
	}
	return err
}

func (b *bell) close() {
	if b.hear >= 0 {
		unix.Close(b.hear)
		unix.Close(b.ring)
	}
}

// drain takes out what has been rung.
func (b *bell) drain() {
	var got [1]byte
	for range bellMax {
		if _, _, err := unix.Recvfrom(b.hear, got[:], unix.MSG_DONTWAIT); err != nil {
			return
		}
	}
}

// bellMax bounds how much drain takes out at a time.
const bellMax = 64

var stroke = []byte{1}

// strike rings the bell whose ringing end is fd. If the socket is full, it has
// been rung.
func strike(fd int) {
	_ = unix.Send(fd, stroke, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

package shm

import (
	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// bell is how others wake a link that sleeps in poll, where a futex does not
// reach it: a datagram socket that they send to. A socket and not an eventfd,
// because a send can be told never to block and cannot take out what somebody
// else has put in. And it is found by its name: to a descriptor that peers
// shared, one could do what silences the others, such as shutdown(2).
type bell struct {
	hear int
	ring int // sends to the bells of others, or to hear
}

// silent is the bell of a link that nobody calls.
var silent = bell{-1, -1}

// open opens the bell with that name. Both sockets belong to the network
// namespace of the calling thread, whoever uses them later.
func (b *bell) open(name *unix.SockaddrUnix) (err error) {
	for _, fd := range []*int{&b.hear, &b.ring} {
		if *fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			*fd = -1
			return err
		}
	}
	passfd.RefuseRights(b.hear)
	if err = unix.Bind(b.hear, name); err != nil {
		return err
	}
	return unix.Connect(b.ring, name)
}

func (b *bell) close() {
	passfd.Promptly(func() {
		for _, fd := range []int{b.hear, b.ring} {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	})
}

// drain takes out what has been rung. Any process can send descriptors to the bell.
func (b *bell) drain() {
	for range bellMax {
		if !passfd.Drop(b.hear) {
			return
		}
	}
}

// bellMax bounds how much drain takes out at a time.
const bellMax = 64

var stroke = []byte{1}

// strike rings the bell itself. If the socket is full, it has been rung.
func (b *bell) strike() {
	_ = unix.Send(b.ring, stroke, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// strikeAt rings the bell of that name. One goroutine at a time uses name.
func (b *bell) strikeAt(name *unix.SockaddrUnix) {
	_ = unix.Sendto(b.ring, stroke, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, name)
}

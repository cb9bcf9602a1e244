package driver

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Connected reports whether an interface that is switched on has a carrier. The interface
// is of the calling thread's network namespace.
func Connected(ifi *net.Interface) bool {
	if ifi.Flags&net.FlagRunning != 0 {
		return true
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(socket)
	return Carrier(socket, ifi.Name)
}

// An interface that has just been switched on gets its carrier when the two ends of the
// wire have agreed on a speed, which takes up to about 3 s, or when the other end of a
// veth is switched on, too.
const (
	carrierWait = 4 * time.Second
	carrierStep = 20 * time.Millisecond
)

// AwaitCarrier calls find until the carrier that find reports as coming has come, or 4 s
// have passed, and returns what find returned last.
func AwaitCarrier[T any](find func() (found T, coming bool, err error)) (T, error) {
	for end := Now() + int64(carrierWait); ; time.Sleep(carrierStep) {
		found, coming, err := find()
		if !coming || Now() >= end {
			return found, err
		}
	}
}

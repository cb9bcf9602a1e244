package driver

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Connected reports whether an interface that is up has a carrier. The interface must be in the
// calling thread's network namespace.
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

// After an interface is set up, its carrier appears when both ends have negotiated a speed, which
// takes up to about 3 s, or when the other end of a veth pair is also set up.
const (
	carrierWait = 4 * time.Second
	carrierStep = 20 * time.Millisecond
)

// AwaitCarrier calls find until it no longer reports a carrier as coming, or 4 s have passed. It
// returns the last result.
func AwaitCarrier[T any](find func() (found T, coming bool, err error)) (T, error) {
	for end := Now() + int64(carrierWait); ; time.Sleep(carrierStep) {
		found, coming, err := find()
		if !coming || Now() >= end {
			return found, err
		}
	}
}

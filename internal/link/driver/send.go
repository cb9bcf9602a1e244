package driver

import (
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Verdict is how a driver handles a frame that the kernel did not accept.
type Verdict uint8

// The verdicts.
const (
	Taken  Verdict = iota // no error
	Again                 // interrupted: repeat the call
	Full                  // the queue is full: offer the frame again later
	Refuse                // this frame will never pass: count it and continue
	Stop                  // end the batch with the error
)

// SendVerdict maps the error of a send to a verdict and the error to return. It does not allocate.
func SendVerdict(errno unix.Errno) (Verdict, error) {
	switch errno {
	case 0:
		return Taken, nil
	case unix.EINTR:
		return Again, nil
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		return Full, nil
	case unix.EMSGSIZE: // the MTU was lowered after the link was opened
		return Stop, transport.ErrFrameSize
	case unix.ENETDOWN, unix.ENODEV:
		return Stop, transport.ErrLinkDown
	case unix.ENXIO: // a packet socket is bound to an interface that has gone
		return Stop, transport.ErrGone
	}
	return Refuse, nil
}

// CheckFrame reports whether f may be sent where frames hold at most limit
// bytes, Ethernet header included. It does not allocate.
func CheckFrame(f *transport.Frame, limit int) error {
	if len(f.Body) > transport.MaxBody || f.Len() > limit {
		return transport.ErrFrameSize
	}
	return nil
}

package afpacket

import (
	"errors"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// OpenError explains why op failed while a link on s was being opened.
func (s *Station) OpenError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		prog, _ := os.Executable()
		if prog == "" {
			prog = "./prog"
		}
		return fmt.Errorf("%w: %s on %s: %w: run as root, or: sudo setcap cap_net_raw=ep %s, or run it inside `bobnet lab`",
			transport.ErrPermission, op, s.Name, err, prog)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("transport: %s: %w: the kernel has no packet sockets; try: modprobe af_packet", op, err)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%w: %s on %s: %w: see: ip link show %s", transport.ErrLinkDown, op, s.Name, err, s.Name)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("transport: %s on %s: %w: the kernel has no memory for the receive queue; ask for fewer slots", op, s.Name, err)
	}
	return fmt.Errorf("transport: %s on %s: %w", op, s.Name, err)
}

// Verdict is what a driver does about a frame that the kernel did not take.
type Verdict uint8

// The verdicts.
const (
	Taken  Verdict = iota // no error
	Again                 // interrupted: repeat the call
	Full                  // the queue is full: offer the frame again later
	Refuse                // this frame will never pass: count it and go on
	Stop                  // end the batch with the error
)

// SendVerdict maps the error of a send to what to do and what to return. It
// does not allocate.
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
	case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
		return Stop, transport.ErrLinkDown
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

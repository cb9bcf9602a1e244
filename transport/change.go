package transport

import (
	"errors"
	"fmt"
)

// ErrChanged is wrapped by every *ChangeError.
var ErrChanged = errors.New("transport: network interface was changed while it was in use")

// ChangeError says what of a network interface has changed since the link on
// it was opened.
type ChangeError struct {
	Interface string
	What      string // "MAC" or "MTU"
	Old, New  string // when the link was opened, and now
	MTU       int    // the new one in bytes, if What is "MTU"
}

// Error says what changed and how to change it back.
func (e *ChangeError) Error() string {
	option := "mtu"
	if e.What == "MAC" {
		option = "address"
	}
	return fmt.Sprintf("%v: the %s of %s was %s and is %s: open it again, or change it back: ip link set dev %s %s %s",
		ErrChanged, e.What, e.Interface, e.Old, e.New, e.Interface, option, e.Old)
}

// Unwrap returns ErrChanged.
func (e *ChangeError) Unwrap() error { return ErrChanged }

// Checker is implemented by links on a network interface, which may be changed while they
// use it, and by shm, which checks whether its rings are sound. Wrappers pass it on. The
// engine that drives a link calls Check a few times a second.
type Checker interface {
	Link

	// Check looks at the interface, by a few system calls. It returns nil, or
	//   - an error that wraps ErrLinkDown if the interface is down, without carrier,
	//     or without the IP address of the station, and says which;
	//   - an error that wraps ErrGone if the interface is gone;
	//   - a *ChangeError if its MAC is another, or its MTU smaller, than Info says.
	//
	// After a change of the MAC frames to the old one no longer arrive; after
	// one of the MTU longer frames are neither sent nor received. A larger MTU
	// changes nothing for the link. Any goroutine may call it at any time.
	Check() error
}

// Check calls link's Check if it has one.
func Check(link Link) error {
	if c, ok := link.(Checker); ok {
		return c.Check()
	}
	return nil
}

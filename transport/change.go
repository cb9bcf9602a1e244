package transport

import (
	"errors"
	"fmt"
)

// ErrChanged is wrapped by every *ChangeError.
var ErrChanged = errors.New("transport: network interface was changed while it was in use")

// ChangeError reports a change of a network interface since the link on it was opened.
type ChangeError struct {
	Interface string
	What      string // "MAC" or "MTU"
	Old, New  string // values when the link was opened, and now
	MTU       int    // the new value in bytes, if What is "MTU"
}

// Error returns the change and how to undo it.
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

// Checker is implemented by links on a network interface, which may change while they use it, and
// by shm, which checks the integrity of its rings. Wrappers forward it. The engine that drives a
// link calls Check a few times a second.
type Checker interface {
	Link

	// Check examines the interface with a few system calls. It returns nil, or
	//   - an error that wraps ErrLinkDown if the interface is down, without carrier, or without the
	//     station's IP address, with the reason;
	//   - an error that wraps ErrGone if the interface is gone;
	//   - a *ChangeError if its MAC differs from Info, or its MTU is smaller.
	//
	// After a change of the MAC, frames to the old MAC no longer arrive. After a reduction of the
	// MTU, longer frames are neither sent nor received. A larger MTU has no effect on the link. Any
	// goroutine may call Check at any time.
	Check() error
}

// Check calls link.Check if link is a Checker.
func Check(link Link) error {
	if c, ok := link.(Checker); ok {
		return c.Check()
	}
	return nil
}

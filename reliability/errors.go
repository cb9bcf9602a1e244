package reliability

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnreachable says that the peer did not answer in any of the tries that
// Config.MaxTries allows. Errors of that kind are *UnreachableError.
var ErrUnreachable = errors.New("peer is unreachable")

// UnreachableError says how a peer was found unreachable. It is ErrUnreachable
// to errors.Is.
type UnreachableError struct {
	Tries  int           // retransmission time-outs since anything was acknowledged
	Silent time.Duration // since the peer was last heard, or since the first frame when it never was
}

// Error says what was tried and what to look at.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("reliability: %v: no acknowledgement in %d tries, last heard %v ago: is the peer running, and are the interfaces up on one segment?",
		ErrUnreachable, e.Tries, e.Silent.Round(time.Millisecond))
}

// Is reports whether target is ErrUnreachable.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

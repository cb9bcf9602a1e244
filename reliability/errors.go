package reliability

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnreachable means that the peer did not answer within the tries that Config.MaxTries allows.
// Such errors are an *UnreachableError.
var ErrUnreachable = errors.New("peer is unreachable")

// UnreachableError reports how a peer was found to be unreachable. It matches ErrUnreachable with
// errors.Is.
type UnreachableError struct {
	Tries  int           // retransmission timeouts since the last acknowledgement
	Silent time.Duration // since the last frame from the peer, or since the first own frame if none has arrived
}

// Error returns the attempts and a hint.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("reliability: %v: no acknowledgement in %d tries, last heard %v ago: is the peer running, and are the interfaces up on one segment?",
		ErrUnreachable, e.Tries, e.Silent.Round(time.Millisecond))
}

// Is reports whether target is ErrUnreachable.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

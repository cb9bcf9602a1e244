package vipl

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

// The VIPL 1.0 return codes (VIPL reference, section 3). Errors returned by
// this package wrap these, except ErrNotDone, which Done calls return bare.
var (
	ErrNotDone            = errors.New("vipl: not done")                                    // VIP_NOT_DONE
	ErrInvalidParameter   = errors.New("vipl: invalid parameter")                           // VIP_INVALID_PARAMETER
	ErrResource           = errors.New("vipl: out of a resource")                           // VIP_ERROR_RESOURCE
	ErrTimeout            = errors.New("vipl: timed out")                                   // VIP_TIMEOUT
	ErrReject             = errors.New("vipl: connection request was rejected")             // VIP_REJECT
	ErrInvalidReliability = errors.New("vipl: reliability levels do not match")             // VIP_INVALID_RELIABILITY_LEVEL
	ErrInvalidMTU         = errors.New("vipl: maximum transfer sizes or MTUs do not match") // VIP_INVALID_MTU
	ErrInvalidQoS         = errors.New("vipl: qualities of service do not match")           // VIP_INVALID_QOS
	ErrInvalidPtag        = errors.New("vipl: invalid protection tag")                      // VIP_INVALID_PTAG
	ErrInvalidRDMARead    = errors.New("vipl: RDMA read is not supported")                  // VIP_INVALID_RDMAREAD
	ErrDescriptor         = errors.New("vipl: descriptor completed in error")               // VIP_DESCRIPTOR_ERROR
	ErrInvalidState       = errors.New("vipl: not possible in this state")                  // VIP_INVALID_STATE
	ErrNameService        = errors.New("vipl: name not found on the segment")               // VIP_ERROR_NAMESERVICE
	ErrNoMatch            = errors.New("vipl: nobody listens at the remote address")        // VIP_NO_MATCH
)

// ErrQueueEmpty is what the Done calls return, with a nil descriptor, when
// nothing is posted on the queue. It is an ErrDescriptor (VI-GM 1.3).
var ErrQueueEmpty = fmt.Errorf("%w: the queue is empty", ErrDescriptor)

// ErrClosed is returned by every call on a NIC that has been closed. What calls on a
// closed VI, completion queue or listener return is an ErrClosed, too, and says which
// of them is closed.
var ErrClosed = fmt.Errorf("%w: the NIC is closed", ErrInvalidState)

// closedError is ErrClosed of what it names.
type closedError string

const (
	errVIClosed       = closedError("VI")
	errCQClosed       = closedError("completion queue")
	errListenerClosed = closedError("listener")
)

func (e closedError) Error() string {
	return ErrInvalidState.Error() + ": the " + string(e) + " is closed"
}
func (e closedError) Is(target error) bool { return target == ErrClosed }
func (e closedError) Unwrap() error        { return ErrInvalidState }

// isClosed returns an error if v or its NIC is closed.
func (v *VI) isClosed() error {
	switch {
	case v.closed:
		return errVIClosed
	case v.nic.closed:
		return ErrClosed
	}
	return nil
}

// isClosed returns an error if q or its NIC is closed.
func (q *CQ) isClosed() error {
	switch {
	case q.closed:
		return errCQClosed
	case q.nic.closed:
		return ErrClosed
	}
	return nil
}

// isClosed returns an error if l or its NIC is closed. A NIC that closes closes its
// listeners.
func (l *Listener) isClosed() error {
	switch {
	case l.nic.closed:
		return ErrClosed
	case l.closed:
		return errListenerClosed
	}
	return nil
}

// errLeft is ErrQueueEmpty for who waits on a VI on which Disconnect was called.
var errLeft = fmt.Errorf("%w, and the VI is not connected: Disconnect was called on it", ErrQueueEmpty)

// What breaks a connection; a ConnError wraps one of these.
var (
	ErrUnreachable  = errors.New("peer does not answer")
	ErrDisconnected = errors.New("peer disconnected")
	ErrPeerReset    = errors.New("peer does not know this connection (it was restarted)")
	ErrRecvQueue    = errors.New("message arrived and no receive was posted")
	ErrTooLong      = errors.New("message is longer than the posted receive")
	ErrRDMA         = errors.New("RDMA outside a region or without the right")
	ErrProtocol     = errors.New("peer violated the protocol")
	ErrLink         = errors.New("network interface failed")
	ErrPeerLink     = errors.New("peer's network interface failed or was changed")
)

// ConnError says why a connection was not made or ended. It is what
// VI.Err returns in the Error state, and what Connect returns.
type ConnError struct {
	Local, Remote ethertype.Addr
	Err           error  // what happened, one of the sentinels
	Detail        string // what was found and what to do about it; may be empty
}

func (e *ConnError) Error() string {
	s := fmt.Sprintf("vipl: connection %v to %v: %v", e.Local, e.Remote, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the cause.
func (e *ConnError) Unwrap() error { return e.Err }

// opError is the package's one funnel: what was asked, the code, what was found.
func opError(op string, code error, format string, args ...any) error {
	return fmt.Errorf("vipl: %s: %w: %s", op, code, fmt.Sprintf(format, args...))
}

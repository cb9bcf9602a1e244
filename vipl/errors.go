package vipl

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// The VIPL 1.0 return codes (VIPL reference, section 3). Errors returned by this package wrap
// these, except ErrNotDone, which Done calls return unwrapped.
var (
	ErrNotDone            = code.ErrNotDone            // VIP_NOT_DONE
	ErrArgument           = code.ErrArgument           // VIP_INVALID_PARAMETER
	ErrResource           = code.ErrResource           // VIP_ERROR_RESOURCE
	ErrTimeout            = code.ErrTimeout            // VIP_TIMEOUT
	ErrReject             = code.ErrReject             // VIP_REJECT
	ErrInvalidReliability = code.ErrInvalidReliability // VIP_INVALID_RELIABILITY_LEVEL
	ErrInvalidMTU         = code.ErrInvalidMTU         // VIP_INVALID_MTU
	ErrInvalidQoS         = code.ErrInvalidQoS         // VIP_INVALID_QOS
	ErrInvalidPtag        = code.ErrInvalidPtag        // VIP_INVALID_PTAG
	ErrInvalidRDMARead    = code.ErrInvalidRDMARead    // VIP_INVALID_RDMAREAD
	ErrDescriptor         = code.ErrDescriptor         // VIP_DESCRIPTOR_ERROR
	ErrInvalidState       = code.ErrInvalidState       // VIP_INVALID_STATE
	ErrNameService        = code.ErrNameService        // VIP_ERROR_NAMESERVICE
	ErrNoMatch            = code.ErrNoMatch            // VIP_NO_MATCH
)

// ErrQueueEmpty is the error of a Done call, with a nil descriptor, if nothing is posted on the
// queue. It is an ErrDescriptor (VI-GM 1.3).
var ErrQueueEmpty = errclass.New(ErrDescriptor, "vipl: no descriptor is posted on the queue")

// ErrClosed is the error of every call on a closed NIC. A call on a closed VI, completion queue or
// listener returns an error that wraps ErrClosed and names the closed object.
var ErrClosed = code.ErrClosed

// closedError is an ErrClosed that names the closed object.
type closedError string

const (
	errVIClosed       = closedError("VI")
	errCQClosed       = closedError("completion queue")
	errListenerClosed = closedError("listener")
)

func (e closedError) Error() string {
	return ErrInvalidState.Error() + ": the " + string(e) + " is closed"
}
func (e closedError) Unwrap() error { return ErrClosed }

// isClosed returns an error if v or its NIC is closed.
func (v *VI) isClosed() error {
	switch {
	case v.conn.Closed:
		return errVIClosed
	case v.nic.m.Closed:
		return ErrClosed
	}
	return nil
}

// isClosed returns an error if q or its NIC is closed.
func (q *CQ) isClosed() error {
	switch {
	case q.closed:
		return errCQClosed
	case q.nic.m.Closed:
		return ErrClosed
	}
	return nil
}

// isClosed returns an error if l or its NIC is closed. Closing a NIC closes its listeners.
func (l *Listener) isClosed() error {
	switch {
	case l.nic.m.Closed:
		return ErrClosed
	case l.closed:
		return errListenerClosed
	}
	return nil
}

// errLeft is the ErrQueueEmpty of a call that waits on a VI after Disconnect.
var errLeft = fmt.Errorf("%w, and the VI is not connected: Disconnect was called on it", ErrQueueEmpty)

// Causes of a broken connection. A ConnError wraps one of these.
var (
	ErrUnreachable  = code.ErrUnreachable
	ErrDisconnected = code.ErrDisconnected
	ErrPeerReset    = code.ErrPeerReset
	ErrRecvQueue    = code.ErrRecvQueue
	ErrTooLong      = code.ErrTooLong
	ErrRDMA         = code.ErrRDMA
	ErrProtocol     = code.ErrProtocol
	ErrLink         = code.ErrLink
	ErrPeerLink     = code.ErrPeerLink
)

// ConnError is the error of a connection that failed or ended. Connect returns it, and so does
// VI.Err in the Error state.
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

// opError returns an error with the operation, the code and the cause.
func opError(op string, why error, format string, args ...any) error {
	return code.Error(op, why, format, args...)
}

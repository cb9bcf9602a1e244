package endpoint

import (
	"errors"
	"fmt"
	"strconv"
)

// The return codes of AM-II (AM2 reference, section 4). Errors wrap these, and add the operation
// and the cause.
var (
	ErrNotSent = errors.New("endpoint: message was not sent")      // AM_ERR_NOT_SENT
	ErrInUse   = errors.New("endpoint: resource currently in use") // AM_ERR_IN_USE
)

// Further errors.
var (
	// ErrInHandler means that a handler polled, waited or sent a request. A request handler may
	// only reply.
	ErrInHandler = fmt.Errorf("%w: a handler of this bundle is running (handlers may only reply)", ErrResource)
	// ErrNoEvents means that a wait for an event would never return, because the event mask is
	// NoEvents.
	ErrNoEvents = fmt.Errorf("%w: the bundle's event mask is NoEvents: call SetEventMask(NotEmpty) first", ErrArgument)
	// ErrNoReply is the error of a Call if the handler at the other side ended without a reply.
	ErrNoReply = errors.New("endpoint: the handler ended without a reply")
)

// The causes of ErrClosed.
var (
	errNodeClosed    = fmt.Errorf("%w: the node has been closed", ErrClosed)
	errBundleFreed   = fmt.Errorf("%w: the bundle has been freed", ErrClosed)
	errEndpointFreed = fmt.Errorf("%w: the endpoint has been freed", ErrClosed)
)

// gone returns why the bundle is unusable, or nil.
func (b *Bundle) gone() error {
	switch {
	case b.node.closed: // lets others in before it frees the bundles
		return errNodeClosed
	case b.freed:
		return errBundleFreed
	}
	return nil
}

// gone returns why the endpoint is unusable, or nil.
func (ep *Endpoint) gone() error {
	if err := ep.bundle.gone(); err != nil || !ep.freed {
		return err
	}
	return errEndpointFreed
}

// Op is the kind of a returned message (op_t).
type Op uint8

// The operations, with AM-II's numbers. No AM-II number of Get is known.
const (
	OpRequest       Op = 1 + iota // AM_REQUEST_M
	OpRequestMedium               // AM_REQUEST_IM
	OpRequestBulk                 // AM_REQUEST_XFER_M
	OpReply                       // AM_REPLY_M
	OpReplyMedium                 // AM_REPLY_IM
	OpReplyBulk                   // AM_REPLY_XFER_M
	OpGet                         // AM_GET_XFER_M
	opEnd
)

var ops = [opEnd]string{"none", "request", "medium request", "bulk request", "reply", "medium reply", "bulk reply", "get"}

// reply reports whether o is an operation of a server.
func (o Op) reply() bool { return o == OpReply || o == OpReplyMedium || o == OpReplyBulk }

func (o Op) String() string {
	if o < opEnd {
		return ops[o]
	}
	return "operation " + strconv.Itoa(int(o))
}

// Returned is a message that returned to its sender because it could not be delivered or was
// refused. It and its slices are valid while the ReturnHandler runs. Sending the same message again
// is unlikely to succeed.
type Returned struct {
	Endpoint *Endpoint // the sender
	Reason   Reason
	Op       Op
	Dest     int  // index in the translation table; -1 for replies, and if the index was unmapped
	To       Name // the destination; zero if the index was not mapped
	Handler  uint8
	Args     []uint32
	// Data is the payload of a medium or bulk message. It is nil for a long bulk request whose data
	// were already written.
	Data   []byte
	Offset uint64 // offset of a bulk message, or of the source of a get
	Length int    // length of bulk data, or of the data requested by a get
	// Err has details that Reason lacks, for example why a peer counts as unreachable, or which limit
	// a message exceeds (*ReturnedError).
	Err error
}

// ReturnedError is the error of a call that could not send its message for a reason detected on
// this side. The ReturnHandler has run, except for a Call. It wraps ErrNotSent.
type ReturnedError struct {
	Op     Op
	Reason Reason
	Detail string
}

func (e *ReturnedError) Error() string {
	return fmt.Sprintf("%v: %v: %v: %s", ErrNotSent, e.Op, e.Reason, e.Detail)
}

// Unwrap returns ErrNotSent.
func (e *ReturnedError) Unwrap() error { return ErrNotSent }

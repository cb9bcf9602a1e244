package endpoint

import (
	"errors"
	"fmt"
	"strconv"
)

// The return codes of AM-II (AM2 reference, section 4); errors wrap these, with
// what was asked and what was found.
var (
	ErrNotSent = errors.New("endpoint: message was not sent")      // AM_ERR_NOT_SENT
	ErrInUse   = errors.New("endpoint: resource currently in use") // AM_ERR_IN_USE
)

// Further errors.
var (
	// ErrInHandler: a handler has polled, waited or sent
	// a request. A request handler may reply, and nothing else.
	ErrInHandler = fmt.Errorf("%w: a handler of this bundle is running, and handlers only reply", ErrResource)
	// ErrNoEvents: a wait for an event while the event mask is NoEvents would
	// never return.
	ErrNoEvents = fmt.Errorf("%w: the bundle's event mask is NoEvents: call SetEventMask(NotEmpty) first", ErrArgument)
	// ErrNoReply is what Call returns when the handler at the other side ended
	// without an answer.
	ErrNoReply = errors.New("endpoint: the handler ended without a reply")
)

// What ErrClosed is about.
var (
	errNodeClosed    = fmt.Errorf("%w: the node has been closed", ErrClosed)
	errBundleFreed   = fmt.Errorf("%w: the bundle has been freed", ErrClosed)
	errEndpointFreed = fmt.Errorf("%w: the endpoint has been freed", ErrClosed)
)

// gone returns why the bundle cannot be used any more, or nil.
func (b *Bundle) gone() error {
	switch {
	case b.node.closed: // lets others in before it frees the bundles
		return errNodeClosed
	case b.freed:
		return errBundleFreed
	}
	return nil
}

// gone returns why the endpoint cannot be used any more, or nil.
func (ep *Endpoint) gone() error {
	if err := ep.bundle.gone(); err != nil || !ep.freed {
		return err
	}
	return errEndpointFreed
}

// Op says what kind of message came back (op_t).
type Op uint8

// The operations, with AM-II's numbers; Get has none there that is known.
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

// reply reports whether a server sends such messages.
func (o Op) reply() bool { return o == OpReply || o == OpReplyMedium || o == OpReplyBulk }

func (o Op) String() string {
	if o < opEnd {
		return ops[o]
	}
	return "operation " + strconv.Itoa(int(o))
}

// Returned is a message that could not be delivered, or was refused, and has
// come back to its sender. It and its slices are valid while the
// ReturnHandler runs. Sending the same message again will hardly help.
type Returned struct {
	Endpoint *Endpoint // that had sent it
	Reason   Reason
	Op       Op
	Dest     int  // index in the translation table; -1 for replies, and when it has been unmapped
	To       Name // the destination; zero when the index was not bound
	Handler  uint8
	Args     []uint32
	// Data is the payload of a medium or bulk message; nil for a long bulk
	// request whose data had been written already.
	Data   []byte
	Offset uint64 // of a bulk message, or where a get was to read
	Length int    // of bulk data, or of what a get wanted
	// Err says what has happened, if there is more to say than Reason does:
	// for example why a peer is believed to be unreachable.
	Err error
}

// ReturnedError is what a call returns that could not send its message because
// of a reason found on this side. The ReturnHandler has run, except for a Call.
// It wraps ErrNotSent.
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

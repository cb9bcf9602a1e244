// Package code has the numbers and texts that the packages of vipl share. These are the return
// codes of VIPL 1.0 (VIPL reference, section 3) as sentinel errors, with the common form of errors:
// operation, code, cause. The others are operations and statuses of descriptors, states of VIs, and
// reasons for the ends of connections. Package vipl exports those that programs see under the same
// names.
package code

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// The codes.
var (
	ErrNotDone            = errors.New("vipl: not done")                                    // VIP_NOT_DONE
	ErrArgument           = errclass.New(transport.ErrArgument, "vipl: invalid parameter")  // VIP_INVALID_PARAMETER
	ErrResource           = errors.New("vipl: out of resources")                            // VIP_ERROR_RESOURCE
	ErrTimeout            = errclass.New(transport.ErrTimeout, "vipl: timed out")           // VIP_TIMEOUT
	ErrReject             = errors.New("vipl: connection request was rejected")             // VIP_REJECT
	ErrInvalidReliability = errors.New("vipl: reliability levels do not match")             // VIP_INVALID_RELIABILITY_LEVEL
	ErrInvalidMTU         = errors.New("vipl: maximum transfer sizes or MTUs do not match") // VIP_INVALID_MTU
	ErrInvalidQoS         = errors.New("vipl: qualities of service do not match")           // VIP_INVALID_QOS
	ErrInvalidPtag        = errors.New("vipl: invalid protection tag")                      // VIP_INVALID_PTAG
	ErrInvalidRDMARead    = errors.New("vipl: RDMA read is not supported")                  // VIP_INVALID_RDMAREAD
	ErrDescriptor         = errors.New("vipl: descriptor completed in error")               // VIP_DESCRIPTOR_ERROR
	ErrInvalidState       = errors.New("vipl: not possible in this state")                  // VIP_INVALID_STATE
	ErrNameService        = errors.New("vipl: name not found on the segment")               // VIP_ERROR_NAMESERVICE
	ErrNoMatch            = errors.New("vipl: no listener at the remote address")           // VIP_NO_MATCH
)

// ErrClosed means that the NIC is closed. It is an ErrInvalidState.
var ErrClosed = errclass.With(transport.ErrClosed, fmt.Errorf("%w: the NIC is closed", ErrInvalidState))

// Error returns an error with the operation, the code, which it wraps, and the cause.
func Error(op string, code error, format string, args ...any) error {
	return fmt.Errorf("vipl: %s: %w: %s", op, errclass.Within("vipl: ", code), fmt.Sprintf(format, args...))
}

// Within returns err with the operation that it ended. The package's name occurs once, in front.
func Within(op string, err error) error {
	return fmt.Errorf("vipl: %s: %w", op, errclass.Within("vipl: ", err))
}

// Causes of a broken connection.
var (
	ErrUnreachable  = errclass.New(transport.ErrPeer, "peer does not answer")
	ErrDisconnected = errclass.New(transport.ErrPeer, "peer disconnected")
	ErrPeerReset    = errclass.New(transport.ErrPeer, "peer does not know this connection (it was restarted)")
	ErrRecvQueue    = errors.New("message arrived and no receive was posted")
	ErrTooLong      = errors.New("message is longer than the posted receive")
	ErrRDMA         = errors.New("RDMA outside a region or without permission")
	ErrProtocol     = errclass.New(transport.ErrPeer, "peer violated the protocol")
	ErrLink         = errors.New("network interface failed")
	ErrPeerLink     = errclass.New(transport.ErrPeer, "peer's network interface failed or was changed")
)

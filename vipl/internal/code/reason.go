package code

import "fmt"

// Reason is why the sender of a KindDisconnect frame ended the connection.
type Reason uint8

// The reasons, by their numbers in frames.
const (
	ReasonLeft      Reason = iota // the peer called Disconnect or Close
	ReasonNoReceive               // a message arrived and no receive was posted
	ReasonTooLong                 // a message was longer than the posted receive
	ReasonRDMA                    // an RDMA write was outside a region or without permission
	ReasonProtocol                // frames contradicted each other
	ReasonSilent                  // the other side did not answer for too long
	ReasonLink                    // the sender's network interface has changed
	ReasonRead                    // an RDMA read was outside a region or without permission
	ReasonAltered                 // the sender's program has changed a posted send or read
	ReasonMTU                     // the path does not carry full-size frames
	ReasonEnd                     // number of reasons
)

// ErrAltered is the cause of ReasonAltered.
var ErrAltered = fmt.Errorf("%w: a descriptor's segments were altered while it was posted", ErrArgument)

// Cause returns the error that r means to both sides, or to the notified one.
func (r Reason) Cause() error {
	switch r {
	case ReasonNoReceive:
		return ErrRecvQueue
	case ReasonTooLong:
		return ErrTooLong
	case ReasonRDMA, ReasonRead:
		return ErrRDMA
	case ReasonProtocol:
		return ErrProtocol
	case ReasonSilent:
		return ErrUnreachable
	case ReasonLink:
		return ErrPeerLink
	case ReasonAltered:
		return ErrAltered
	case ReasonMTU:
		return ErrInvalidMTU
	}
	return ErrDisconnected
}

// OfMessage reports whether r is the fault of one message, whose number the frame contains. Other
// messages in the same frame are not affected.
func (r Reason) OfMessage() bool { return r == ReasonNoReceive || r == ReasonTooLong }

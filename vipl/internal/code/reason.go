package code

import "fmt"

// Reason says in a KindDisconnect frame why its sender ended the connection.
type Reason uint8

// The reasons, by their numbers in frames.
const (
	ReasonLeft      Reason = iota // the peer called Disconnect or Close
	ReasonNoReceive               // a message came and no receive was posted
	ReasonTooLong                 // a message was longer than the posted receive
	ReasonRDMA                    // an RDMA write was outside a region or without the right
	ReasonProtocol                // frames contradicted each other
	ReasonSilent                  // the other side had not answered for too long
	ReasonLink                    // its sender's network interface was changed
	ReasonRead                    // an RDMA read was outside a region or without the right
	ReasonAltered                 // its program has shortened a send or a read that was posted
	ReasonMTU                     // the path does not carry full-size frames any more
	ReasonEnd                     // how many there are
)

// ErrAltered is the cause of ReasonAltered.
var ErrAltered = fmt.Errorf("%w: a descriptor's segments were altered while it was posted", ErrArgument)

// Cause returns the error that r means to both sides, or to the one that is told.
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

// OfMessage reports whether r is the fault of a message, whose number the frame
// that says so names. It may share a frame with others, which are not to blame.
func (r Reason) OfMessage() bool { return r == ReasonNoReceive || r == ReasonTooLong }

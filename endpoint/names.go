package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// The types of messages and providers are declared in those packages, and aliased here.

// Name identifies an endpoint on the segment (en_t). It is comparable, and has a binary form of
// fixed size, so that messages can carry it. It does not change when the endpoint moves to another
// bundle. The zero Name is invalid.
type Name = wire.Name

// ErrName is wrapped by the errors of parsing a Name.
var ErrName = wire.ErrName

// ParseName parses the output of Name.String.
func ParseName(s string) (Name, error) { return wire.ParseName(s) }

// Tag is an endpoint's protection tag (tag_t). An endpoint accepts a message that carries its tag.
type Tag = wire.Tag

// The special values of an endpoint's tag.
const (
	TagNone Tag = wire.TagNone // AM_NONE: no message is accepted; the initial tag of every endpoint
	TagAll  Tag = wire.TagAll  // AM_ALL: every message is accepted
)

// Reason is why a message returned to its sender (AM2 reference, section 7).
type Reason = wire.Reason

// The reasons, in AM-II's order.
const (
	ReasonBadArgs       Reason = wire.ReasonBadArgs       // EBADARGS: invalid arguments to request or reply
	ReasonBadEntry      Reason = wire.ReasonBadEntry      // EBADENTRY: the translation index is not bound
	ReasonBadTag        Reason = wire.ReasonBadTag        // EBADTAG: the sender's tag did not match
	ReasonBadHandler    Reason = wire.ReasonBadHandler    // EBADHANDLER: no such handler at the receiver
	ReasonBadOffset     Reason = wire.ReasonBadOffset     // EBADSEGOFF: offset into the segment invalid
	ReasonBadLength     Reason = wire.ReasonBadLength     // EBADLENGTH: the transfer goes beyond the segment's end
	ReasonBadEndpoint   Reason = wire.ReasonBadEndpoint   // EBADENDPOINT: the destination endpoint does not exist
	ReasonCongestion    Reason = wire.ReasonCongestion    // ECONGESTION: the destination has no room for another sender
	ReasonUnreachable   Reason = wire.ReasonUnreachable   // EUNREACHABLE: the destination does not answer
	ReasonReplyRejected Reason = wire.ReasonReplyRejected // EREPLYREJECTED: the destination refused a reply
)

// The return codes of AM-II that providers also return (AM2 reference, section 4).
var (
	ErrArgument = provider.ErrArgument // AM_ERR_BAD_ARG
	ErrResource = provider.ErrResource // AM_ERR_RESOURCE
	// ErrClosed means that the node, bundle or endpoint has been closed or freed (AM_ERR_NOT_INIT).
	ErrClosed = provider.ErrClosed
)

// Package wire defines the binary form of the messages of endpoints: the header, several messages
// in one message of a provider, and the private data of a connection request.
package wire

import "encoding/binary"

// Kind is the type of a message on a connection. Requests and answers to grants travel from the
// client half, which owns the translation, to the server half. Replies, grants and returns travel
// from the server half to the client half.
type Kind uint8

const (
	kindInvalid Kind = iota
	// From client to server.
	KindShort    // request
	KindMedium   // request with a payload
	KindBulk     // bulk request with its data, which is short
	KindAnnounce // bulk request; its data waits for a grant
	KindGet      // asks for Length bytes at Offset of the server's segment
	KindRefuse   // the reply was refused, for Reason
	KindSkip     // the request has returned to its sender; the server must not wait for it
	// From server to client.
	KindReply
	KindReplyMedium   // with a payload
	KindReplyBulk     // with bulk data, which is short
	KindReplyAnnounce // bulk reply; its data waits for a grant
	KindReturn        // the request was refused, for Reason
	KindDone          // the end of a request without a (further) reply
	// Both ways.
	KindClear // the announced data may be written to the window that follows
	// Messages of the channel itself (vi/batch.go).
	KindAsk     // from client to server: requests windows for batches
	KindWindows // from server to client: the windows follow
	// The channel's own, both ways (vi/landing.go).
	KindLanding // bulk messages may land in the window that follows
	KindEnd     // one more than the last
)

// Request reports whether messages of the kind occupy a slot.
func (k Kind) Request() bool { return k >= KindShort && k <= KindGet }

// Tagged reports whether messages of the kind carry tags: requests and replies.
func (k Kind) Tagged() bool { return k.Request() || k >= KindReply && k <= KindReplyAnnounce }

// Announces reports whether messages of the kind announce bulk data.
func (k Kind) Announces() bool { return k == KindAnnounce || k == KindReplyAnnounce }

// Landing returns the kind of the message that has the data of an announcement of kind k with it.
func (k Kind) Landing() Kind {
	if k == KindAnnounce {
		return KindBulk
	}
	return KindReplyBulk
}

// Own reports whether messages of the kind belong to the channel and not to its half.
func (k Kind) Own() bool { return k >= KindAsk }

// located reports whether messages of the kind refer to a part of a segment.
func (k Kind) located() bool {
	return k >= KindBulk && k <= KindGet || k == KindReplyBulk || k == KindReplyAnnounce
}

// Header begins every message; its arguments and then its payload follow.
//
//	0 kind, and flags   1 args   2 handler   3 reason, or under way
//	4 slot (2)   6 length (2, join.go)   8 use (4)
//	tagged, without sameTags:   tag (8)   reply tag (8)
//	located:                    length (4)   offset (8)
//
// All numbers are little-endian. The flags refer to the enclosing VI message: sameTags means that
// the tags are those of the previous message. spaced means that the next message begins where it
// would if this one had full length.
type Header struct {
	Kind     Kind
	Handler  uint8
	Args     uint8 // number of arguments
	Reason   Reason
	Underway uint8  // of a request: number of the client's requests in flight, at most 255
	Slot     uint16 // slot of the client, which the request occupies until its end
	Use      uint32 // number of the request within the connection, from 1 on
	Length   uint32 // of bulk data
	Tag      Tag    // of the destination, as the sender knows it
	ReplyTag Tag    // of the sender; its reply carries this tag
	Offset   uint64 // into the segment
}

// Sizes in bytes, and the flags of a message's first byte.
const (
	BaseSize   = 12
	TagsSize   = 16
	placeSize  = 12
	headerSize = BaseSize + TagsSize + placeSize // maximum
	argSize    = 4
	WindowSize = 12
	SmallSize  = headerSize + MaxArgs*argSize // maximum for a message without payload

	sameTags = 0x80
	Spaced   = 0x40
	flags    = sameTags | Spaced
)

// Copy copies from into h, field by field: the processor stalls if it reads memory that it has just
// written in pieces of another size. Parse copies field by field for the same reason.
func (h *Header) Copy(from *Header) {
	h.Kind, h.Args, h.Handler, h.Reason, h.Underway = from.Kind, from.Args, from.Handler, from.Reason, from.Underway
	h.Slot, h.Use, h.Length, h.Tag, h.ReplyTag, h.Offset = from.Slot, from.Use, from.Length, from.Tag, from.ReplyTag, from.Offset
}

// LastTags are the tags of the last tagged message.
type LastTags struct {
	tag, replyTag Tag
	known         bool
}

// Put writes the header, including tags, and returns its length.
func (h *Header) Put(b []byte) int {
	_ = b[headerSize-1]
	b[0], b[1], b[2], b[3] = byte(h.Kind), h.Args, h.Handler, byte(h.Reason)|h.Underway
	binary.LittleEndian.PutUint16(b[4:], h.Slot)
	binary.LittleEndian.PutUint16(b[6:], 0)
	binary.LittleEndian.PutUint32(b[8:], h.Use)
	at := BaseSize
	if h.Kind.Tagged() {
		binary.LittleEndian.PutUint64(b[at:], uint64(h.Tag))
		binary.LittleEndian.PutUint64(b[at+8:], uint64(h.ReplyTag))
		at += TagsSize
	}
	if h.Kind.located() {
		binary.LittleEndian.PutUint32(b[at:], h.Length)
		binary.LittleEndian.PutUint64(b[at+4:], h.Offset)
		at += placeSize
	}
	return at
}

// Parse reads a header and returns the arguments and the payload that follow. It returns false for
// bytes that no version of this package sends. last holds the tags of the previous messages in the
// same VI message, and Parse updates it; it may be nil.
func (h *Header) Parse(b []byte, last *LastTags) (body []byte, ok bool) {
	if len(b) < BaseSize {
		return nil, false
	}
	h.Kind, h.Args, h.Handler, h.Reason, h.Underway = Kind(b[0]&^flags), b[1], b[2], Reason(b[3]), 0
	h.Slot, h.Use = binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint32(b[8:])
	h.Tag, h.ReplyTag, h.Length, h.Offset = 0, 0, 0, 0
	if h.Kind.Request() {
		h.Reason, h.Underway = 0, b[3]
	}
	if h.Kind == kindInvalid || h.Kind >= KindEnd || h.Args > MaxArgs || h.Reason >= ReasonEnd {
		return nil, false
	}
	if (h.Kind == KindReturn || h.Kind == KindRefuse) && h.Reason == 0 {
		return nil, false
	}
	same := b[0]&sameTags != 0
	b = b[BaseSize:]
	switch {
	case same && (last == nil || !last.known || !h.Kind.Tagged()):
		return nil, false
	case same:
		h.Tag, h.ReplyTag = last.tag, last.replyTag
	case h.Kind.Tagged():
		if len(b) < TagsSize {
			return nil, false
		}
		h.Tag, h.ReplyTag = Tag(binary.LittleEndian.Uint64(b)), Tag(binary.LittleEndian.Uint64(b[8:]))
		b = b[TagsSize:]
		if last != nil {
			*last = LastTags{h.Tag, h.ReplyTag, true}
		}
	}
	if h.Kind.located() {
		if len(b) < placeSize {
			return nil, false
		}
		h.Length, h.Offset = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
		b = b[placeSize:]
	}
	return b, len(b) >= int(h.Args)*argSize
}

// Payload returns the part of a message's body after the arguments.
func (h *Header) Payload(body []byte) []byte { return body[int(h.Args)*argSize:] }

// Arguments reads a message's arguments from its body into args. It returns args, cut to their
// number.
func (h *Header) Arguments(body []byte, args *[MaxArgs]uint32) []uint32 {
	for i := range args[:h.Args] {
		args[i] = binary.LittleEndian.Uint32(body[i*argSize:])
	}
	return args[:h.Args:h.Args]
}

// PutArgs writes arguments to b from offset at, and returns the offset of their end.
func PutArgs(b []byte, at int, args []uint32) int {
	for _, a := range args {
		binary.LittleEndian.PutUint32(b[at:], a)
		at += argSize
	}
	return at
}

// Window is memory to which a peer may write bulk data once: an address and the key that permits
// it.
type Window struct {
	Addr   uint64
	Handle uint32
}

// Put writes the window to b, which has room for WindowSize bytes.
func (w Window) Put(b []byte) {
	binary.LittleEndian.PutUint64(b, w.Addr)
	binary.LittleEndian.PutUint32(b[8:], w.Handle)
}

// Parse reads a window, and reports false if b is too short for one.
func (w *Window) Parse(b []byte) bool {
	if len(b) < WindowSize {
		return false
	}
	w.Addr = binary.LittleEndian.Uint64(b)
	w.Handle = binary.LittleEndian.Uint32(b[8:])
	return true
}

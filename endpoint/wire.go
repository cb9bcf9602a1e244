package endpoint

import "encoding/binary"

// kind says what a message on a connection is. Requests and answers to grants
// go from the client half, which has the translation, to the server half;
// replies, grants and returns go the other way.
type kind uint8

const (
	kindInvalid kind = iota
	// From client to server.
	kindShort    // request
	kindMedium   // request with a payload
	kindBulk     // bulk request with its data, which is short
	kindAnnounce // bulk request; its data waits for a grant
	kindGet      // asks for Length bytes at Offset of the server's segment
	kindRefuse   // the reply was refused, for Reason
	// From server to client.
	kindReply
	kindReplyMedium
	kindReplyBulk
	kindReplyAnnounce
	kindReturn // the request was refused, for Reason
	kindDone   // the end of a request without a (further) reply
	// Both ways.
	kindClear // the announced data may be written to the window that follows
	// The channel's own (batch.go).
	kindAsk     // from client to server: for windows for batches
	kindWindows // from server to client: they follow
	kindEnd
)

// request reports whether messages of the kind take a slot.
func (k kind) request() bool { return k >= kindShort && k <= kindGet }

// tagged reports whether messages of the kind carry tags: requests and replies.
func (k kind) tagged() bool { return k.request() || k >= kindReply && k <= kindReplyAnnounce }

// own reports whether messages of the kind are the channel's, and not its half's.
func (k kind) own() bool { return k >= kindAsk }

// located reports whether messages of the kind concern a part of a segment.
func (k kind) located() bool {
	return k >= kindBulk && k <= kindGet || k == kindReplyBulk || k == kindReplyAnnounce
}

// header begins every message; its arguments and then its payload follow.
//
//	0 kind, and flags   1 args   2 handler   3 reason, or under way
//	4 slot (2)   6 length (2, coalesce.go)   8 use (4)
//	tagged, without sameTags:   tag (8)   reply tag (8)
//	located:                    length (4)   offset (8)
//
// All numbers are little-endian. The flags are about the VI message that it is
// part of: sameTags means those of the message before it, and spaced that the next
// one begins where it would if this one were of full length.
type header struct {
	kind     kind
	handler  uint8
	args     uint8 // how many
	reason   Reason
	underway uint8  // of a request: how many the client has under way, at most 255
	slot     uint16 // the client's, which the request holds until its end
	use      uint32 // how often that slot has been used: tells an answer from a late one
	length   uint32 // of bulk data
	tag      Tag    // of the destination, as the sender has it
	replyTag Tag    // of the sender, which its reply will carry
	offset   uint64 // into the segment
}

const (
	baseSize   = 12
	tagsSize   = 16
	placeSize  = 12
	headerSize = baseSize + tagsSize + placeSize // at most
	argSize    = 4
	windowSize = 12
	smallSize  = headerSize + MaxShort*argSize // of a message without payload, at most

	sameTags = 0x80
	spaced   = 0x40
	flags    = sameTags | spaced
)

// copy makes h what from is. Field by field, because the processor waits before it
// reads what has just been written in other pieces; so does parse.
func (h *header) copy(from *header) {
	h.kind, h.args, h.handler, h.reason, h.underway = from.kind, from.args, from.handler, from.reason, from.underway
	h.slot, h.use, h.length, h.tag, h.replyTag, h.offset = from.slot, from.use, from.length, from.tag, from.replyTag, from.offset
}

// lastTags are the tags of the last message that carried some.
type lastTags struct {
	tag, replyTag Tag
	known         bool
}

// put writes the header, tags included, and returns where it ends.
func (h *header) put(b []byte) int {
	_ = b[headerSize-1]
	b[0], b[1], b[2], b[3] = byte(h.kind), h.args, h.handler, byte(h.reason)|h.underway
	binary.LittleEndian.PutUint16(b[4:], h.slot)
	binary.LittleEndian.PutUint16(b[6:], 0)
	binary.LittleEndian.PutUint32(b[8:], h.use)
	at := baseSize
	if h.kind.tagged() {
		binary.LittleEndian.PutUint64(b[at:], uint64(h.tag))
		binary.LittleEndian.PutUint64(b[at+8:], uint64(h.replyTag))
		at += tagsSize
	}
	if h.kind.located() {
		binary.LittleEndian.PutUint32(b[at:], h.length)
		binary.LittleEndian.PutUint64(b[at+4:], h.offset)
		at += placeSize
	}
	return at
}

// parse reads a header and returns the arguments and the payload that follow. It
// reports false for bytes that no version of this package sends. last holds the
// tags of the messages before it in the same VI message, and then its own; it may
// be nil.
func (h *header) parse(b []byte, last *lastTags) (body []byte, ok bool) {
	if len(b) < baseSize {
		return nil, false
	}
	h.kind, h.args, h.handler, h.reason, h.underway = kind(b[0]&^flags), b[1], b[2], Reason(b[3]), 0
	h.slot, h.use = binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint32(b[8:])
	h.tag, h.replyTag, h.length, h.offset = 0, 0, 0, 0
	if h.kind.request() {
		h.reason, h.underway = 0, b[3]
	}
	if h.kind == kindInvalid || h.kind >= kindEnd || h.args > MaxShort || h.reason >= reasonEnd {
		return nil, false
	}
	if (h.kind == kindReturn || h.kind == kindRefuse) && h.reason == 0 {
		return nil, false
	}
	same := b[0]&sameTags != 0
	b = b[baseSize:]
	switch {
	case same && (last == nil || !last.known || !h.kind.tagged()):
		return nil, false
	case same:
		h.tag, h.replyTag = last.tag, last.replyTag
	case h.kind.tagged():
		if len(b) < tagsSize {
			return nil, false
		}
		h.tag, h.replyTag = Tag(binary.LittleEndian.Uint64(b)), Tag(binary.LittleEndian.Uint64(b[8:]))
		b = b[tagsSize:]
		if last != nil {
			*last = lastTags{h.tag, h.replyTag, true}
		}
	}
	if h.kind.located() {
		if len(b) < placeSize {
			return nil, false
		}
		h.length, h.offset = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
		b = b[placeSize:]
	}
	return b, len(b) >= int(h.args)*argSize
}

// payload returns what follows the arguments in the body of a message.
func (h *header) payload(body []byte) []byte { return body[int(h.args)*argSize:] }

// arguments reads those of a message from its body into args, which it returns
// cut to length.
func (h *header) arguments(body []byte, args *[MaxShort]uint32) []uint32 {
	for i := range args[:h.args] {
		args[i] = binary.LittleEndian.Uint32(body[i*argSize:])
	}
	return args[:h.args:h.args]
}

// putArgs writes arguments to b from at on and returns where they end.
func putArgs(b []byte, at int, args []uint32) int {
	for _, a := range args {
		binary.LittleEndian.PutUint32(b[at:], a)
		at += argSize
	}
	return at
}

// window is where a peer may write bulk data once: an address and what gives
// the right to it.
type window struct {
	addr   uint64
	handle uint32
}

func (w window) put(b []byte) {
	binary.LittleEndian.PutUint64(b, w.addr)
	binary.LittleEndian.PutUint32(b[8:], w.handle)
}

func (w *window) parse(b []byte) bool {
	if len(b) < windowSize {
		return false
	}
	w.addr = binary.LittleEndian.Uint64(b)
	w.handle = binary.LittleEndian.Uint32(b[8:])
	return true
}

// hello goes with the request for a connection.
//
//	0 version (4)   4 from (16)   20 endpoint (4)   24 incarnation (4)
//	28 slots (2)   30 small slots (2)   32 payload (4)
type hello struct {
	from        Name   // of the client
	id          uint32 // of the endpoint that is wanted
	incarnation uint32
	shape       shape
}

const (
	wireVersion = 0x414d0204 // "AM", 2, and the version of this format
	helloSize   = 36
)

func (h *hello) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, wireVersion)
	b, _ = h.from.AppendBinary(b)
	b = binary.LittleEndian.AppendUint32(b, h.id)
	b = binary.LittleEndian.AppendUint32(b, h.incarnation)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.shape.slots))
	b = binary.LittleEndian.AppendUint16(b, uint16(h.shape.small))
	return binary.LittleEndian.AppendUint32(b, uint32(h.shape.medium))
}

func (h *hello) parse(b []byte) bool {
	if len(b) != helloSize || binary.LittleEndian.Uint32(b) != wireVersion {
		return false
	}
	h.from.UnmarshalBinary(b[4:20])
	h.id = binary.LittleEndian.Uint32(b[20:])
	h.incarnation = binary.LittleEndian.Uint32(b[24:])
	h.shape.slots = int(binary.LittleEndian.Uint16(b[28:]))
	h.shape.small = int(binary.LittleEndian.Uint16(b[30:]))
	h.shape.medium = int(binary.LittleEndian.Uint32(b[32:]))
	s := &h.shape
	return s.slots > 0 && s.slots <= MaxCredits && s.small <= s.slots && s.medium > 0 && s.medium <= MaxMediumLimit
}

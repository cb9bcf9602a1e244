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
	kindEnd
)

// request reports whether messages of the kind take a slot.
func (k kind) request() bool { return k >= kindShort && k <= kindGet }

// header begins every message; its arguments and then its payload follow.
//
//	0 kind   1 args   2 handler   3 reason, or under way   4 slot (2)
//	6 length (2, gather.go)
//	8 use (4)   12 length (4)   16 tag (8)   24 reply tag (8)   32 offset (8)
//
// All numbers are little-endian.
type header struct {
	kind     kind
	args     uint8 // how many
	handler  uint8
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
	headerSize = 40
	argSize    = 4
	windowSize = 12
	smallSize  = headerSize + MaxShort*argSize // of a message without payload
)

func (h *header) put(b []byte) {
	_ = b[headerSize-1]
	b[0], b[1], b[2], b[3] = byte(h.kind), h.args, h.handler, byte(h.reason)|h.underway
	binary.LittleEndian.PutUint16(b[4:], h.slot)
	binary.LittleEndian.PutUint16(b[6:], 0)
	binary.LittleEndian.PutUint32(b[8:], h.use)
	binary.LittleEndian.PutUint32(b[12:], h.length)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.tag))
	binary.LittleEndian.PutUint64(b[24:], uint64(h.replyTag))
	binary.LittleEndian.PutUint64(b[32:], h.offset)
}

// parse reads a header and returns what follows the arguments. It reports
// false for bytes that no version of this package sends.
func (h *header) parse(b []byte) (payload []byte, ok bool) {
	if len(b) < headerSize {
		return nil, false
	}
	h.kind, h.args, h.handler = kind(b[0]), b[1], b[2]
	h.reason, h.underway = Reason(b[3]), 0
	if h.kind.request() {
		h.reason, h.underway = 0, b[3]
	}
	h.slot = binary.LittleEndian.Uint16(b[4:])
	h.use = binary.LittleEndian.Uint32(b[8:])
	h.length = binary.LittleEndian.Uint32(b[12:])
	h.tag = Tag(binary.LittleEndian.Uint64(b[16:]))
	h.replyTag = Tag(binary.LittleEndian.Uint64(b[24:]))
	h.offset = binary.LittleEndian.Uint64(b[32:])
	end := headerSize + int(h.args)*argSize
	if (h.kind == kindReturn || h.kind == kindRefuse) && h.reason == 0 {
		return nil, false
	}
	if h.kind == kindInvalid || h.kind >= kindEnd || h.args > MaxShort || h.reason >= reasonEnd || len(b) < end {
		return nil, false
	}
	return b[end:], true
}

// putArgs writes the arguments behind the header and returns where they end.
func putArgs(b []byte, args []uint32) int {
	at := headerSize
	for _, a := range args {
		binary.LittleEndian.PutUint32(b[at:], a)
		at += argSize
	}
	return at
}

// getArgs reads n arguments of the message b into args, which it returns cut
// to length.
func getArgs(b []byte, n uint8, args *[MaxShort]uint32) []uint32 {
	for i := range args[:n] {
		args[i] = binary.LittleEndian.Uint32(b[headerSize+i*argSize:])
	}
	return args[:n:n]
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
	wireVersion = 0x414d0201 // "AM", 2, and the version of this format
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

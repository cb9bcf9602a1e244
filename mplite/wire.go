package mplite

import (
	"github.com/bobnet-go/bobnet/internal/joining"
)

import "encoding/binary"

// headerSize is the size in bytes of the header, which precedes the payload of every
// message.
const headerSize = 32

// The field table. Header fields are always little-endian. The payload has the byte order
// of the sender, which flagBig indicates.
const (
	fieldKind    = 0  // kind
	fieldFlags   = 1  // flags
	fieldLand    = 2  // slots of landing memory that the sender returns, a bit each
	fieldControl = 3  // control credits that the sender returns
	fieldData    = 4  // data credits that the sender returns
	fieldZero    = 6  // must be zero
	fieldContext = 8  // communicator, and whether the message is of a collective
	fieldTag     = 12 // tag, or the argument of fail and abort
	fieldSize    = 16 // bytes of the whole message
	fieldSendID  = 24 // the sender's request
	fieldRecvID  = 28 // the receiver's request; in a data message the signature of its elements
)

// kind is the purpose of a message.
type kind uint8

const (
	kindInvalid kind = iota
	// Data messages spend data credits and wait for a match.
	kindEager // the payload follows
	kindReady // request to send: the payload waits at the sender; an offer may follow
	// Control messages spend control credits and are consumed on arrival.
	kindClear  // clear to send: where to write the payload of a ready message
	kindDone   // a synchronous eager message has been matched
	kindNack   // the sender of a ready message has given up
	kindCredit // returns credits, nothing else
	kindHello  // the first message: who I am and what I have room for
	kindBye    // the last message: I have finalized
	kindFail   // the rank in the tag field has died, or is there twice: a report follows
	kindAbort  // abort the job with the code in the tag field
	kindAsk    // the sender waits in this collective: does it fit the receiver's?
	kindDiffer // collectives that do not fit, or wrong arguments of one
	kindTaken  // ends the sends whose requests the body lists: the receiver has copied the messages
	kindLand   // landing memory: where to write messages without an announcement
	kindEnd
)

const (
	flagBig    = 1 << iota // payload is big-endian
	flagSync               // answer with kindDone when matched
	flagHungry             // this took the last data credit: return some soon
	flagEnd
)

// header is a decoded message header.
type header struct {
	kind    kind
	flags   uint8
	land    uint8
	control uint8
	data    uint16
	context uint32
	tag     int32
	size    uint64
	sendID  uint32
	recvID  uint32 // in a data message the signature of its elements
	call    uint64 // in a data message of a collective: see callSig
}

// callSize is the size in bytes of the call's signature, which follows the header in a
// data message of a collective.
const callSize = 8

// collective reports whether h belongs to a collective: a data message with an odd
// context. Other messages have an even context or none.
func (h *header) collective() bool { return h.context&1 != 0 }

// length returns the number of bytes that put needs.
func (h *header) length() int {
	if h.collective() {
		return headerSize + callSize
	}
	return headerSize
}

// put encodes h into the first bytes of b and returns their number.
func (h *header) put(b []byte) int {
	n := headerSize
	le := binary.LittleEndian
	if h.collective() {
		le.PutUint64(b[n:], h.call)
		n += callSize
	}
	b = b[:headerSize:headerSize]
	le.PutUint32(b[fieldKind:], uint32(h.kind)|uint32(h.flags)<<8|uint32(h.land)<<16|uint32(h.control)<<24)
	le.PutUint32(b[fieldData:], uint32(h.data))
	le.PutUint32(b[fieldContext:], h.context)
	le.PutUint32(b[fieldTag:], uint32(h.tag))
	le.PutUint64(b[fieldSize:], h.size)
	le.PutUint32(b[fieldSendID:], h.sendID)
	le.PutUint32(b[fieldRecvID:], h.recvID)
	return n
}

// parse decodes b and reports whether it is a message that a peer may send.
// An eager message's size is that of its payload.
func (h *header) parse(b []byte) (payload []byte, ok bool) {
	if len(b) < headerSize {
		return nil, false
	}
	payload = b[headerSize:]
	b = b[:headerSize:headerSize]
	le := binary.LittleEndian
	h.kind, h.flags, h.land, h.control = kind(b[fieldKind]), b[fieldFlags], b[fieldLand], b[fieldControl]
	h.data = le.Uint16(b[fieldData:])
	h.context = le.Uint32(b[fieldContext:])
	h.tag = int32(le.Uint32(b[fieldTag:]))
	h.size = le.Uint64(b[fieldSize:])
	h.sendID = le.Uint32(b[fieldSendID:])
	h.recvID = le.Uint32(b[fieldRecvID:])
	if h.collective() {
		if len(payload) < callSize {
			return nil, false
		}
		h.call = le.Uint64(payload)
		payload = payload[callSize:]
	}
	return payload, h.valid(len(payload)) && le.Uint16(b[fieldZero:]) == 0
}

func (h *header) valid(payload int) bool {
	switch h.kind {
	case kindEager:
		return h.flags < flagEnd && h.tag >= 0 && h.size == uint64(payload)
	case kindReady:
		return h.flags < flagEnd && h.tag >= 0 && h.size <= maxMessage && (payload == 0 || payload == offerSize)
	case kindClear:
		return h.size <= maxMessage && payload == targetSize
	case kindTaken:
		return payload > 0 && payload%4 == 0
	case kindLand:
		return h.size <= landMax && payload == targetSize
	case kindHello:
		return payload == joining.HelloSize
	case kindFail:
		return payload <= joining.ReportMax
	case kindAsk:
		return h.tag >= 0 && payload == askSize
	case kindDiffer:
		return h.tag >= 0 && payload >= differSize
	case kindInvalid:
		return false
	}
	return h.kind < kindEnd && payload == 0
}

// maxMessage is the longest message in bytes. It bounds the size that a hostile header
// can claim. Memory limits real messages earlier.
const maxMessage = 1 << 46

// target is the body of a clear or land message: the destination of payloads.
type target struct {
	addr   uint64
	handle uint32
}

const targetSize = 12

func (t *target) put(b []byte) {
	binary.LittleEndian.PutUint64(b, t.addr)
	binary.LittleEndian.PutUint32(b[8:], t.handle)
}

func (t *target) parse(b []byte) {
	t.addr = binary.LittleEndian.Uint64(b)
	t.handle = binary.LittleEndian.Uint32(b[8:])
}

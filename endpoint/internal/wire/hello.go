package wire

import "encoding/binary"

// Hello is the private data of a connection request.
//
//	0 version (4)   4 from (16)   20 endpoint (4)   24 incarnation (4)
//	28 slots (2)   30 small slots (2)   32 payload (4)
type Hello struct {
	From        Name   // of the client
	ID          uint32 // of the requested endpoint
	Incarnation uint32
	Shape       Shape
}

// Limits.
const (
	MaxArgs   = 16       // of a message
	MaxSlots  = 1024     // of a connection
	MaxMedium = 64 << 10 // bytes of a payload
)

// HelloSize is the length of a Hello in bytes.
const (
	version   = 0x414d0207 // "AM", 2, and the version of this format
	HelloSize = 36
)

// Append appends the binary form, little-endian.
func (h *Hello) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, version)
	b, _ = h.From.AppendBinary(b)
	b = binary.LittleEndian.AppendUint32(b, h.ID)
	b = binary.LittleEndian.AppendUint32(b, h.Incarnation)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.Shape.Slots))
	b = binary.LittleEndian.AppendUint16(b, uint16(h.Shape.Small))
	return binary.LittleEndian.AppendUint32(b, uint32(h.Shape.Medium))
}

// Parse reads the binary form. It reports false for another version, and for an invalid shape.
func (h *Hello) Parse(b []byte) bool {
	if len(b) != HelloSize || binary.LittleEndian.Uint32(b) != version {
		return false
	}
	h.From.UnmarshalBinary(b[4:20])
	h.ID = binary.LittleEndian.Uint32(b[20:])
	h.Incarnation = binary.LittleEndian.Uint32(b[24:])
	h.Shape.Slots = int(binary.LittleEndian.Uint16(b[28:]))
	h.Shape.Small = int(binary.LittleEndian.Uint16(b[30:]))
	h.Shape.Medium = int(binary.LittleEndian.Uint32(b[32:]))
	s := &h.Shape
	return s.Slots > 0 && s.Slots <= MaxSlots && s.Small <= s.Slots && s.Medium > 0 && s.Medium <= MaxMedium
}

// Side is the half that a channel belongs to.
type Side uint8

const (
	Asking  Side = iota // client
	Serving             // server
)

// Shape is the size of a channel.
type Shape struct {
	Slots  int // maximum number of requests in flight
	Small  int // slots from 0 on that carry no payload
	Medium int // longest payload of the other slots, and of all replies
}

// Full returns the length of the longest message.
func (s Shape) Full() int { return SmallSize + (s.Medium+7)&^7 }

// Receives is the maximum number of messages that a side must keep at a time: one for each slot,
// and the one whose handler is running (endpoint/slot.go).
func (s Shape) Receives() int { return s.Slots + 1 }

// Sends returns the length of send buffer i. A client has one for each slot, which keeps the
// request until its answer. After these it has one for each slot for its answers about bulk
// replies. A server has two for each slot and alternates between them, because the client may reuse
// the slot before the provider knows that the last answer has arrived.
func (s Shape) Sends(i int, at Side) int {
	switch {
	case at == Asking && (i < s.Small || i >= s.Slots):
		return SmallSize
	default:
		return s.Full()
	}
}

// NumSends is the number of send buffers of each side.
func (s Shape) NumSends() int { return 2 * s.Slots }

// Memory returns the number of bytes of all buffers of one end.
func (s Shape) Memory(at Side) int {
	total := s.Receives() * s.Full()
	for i := range s.NumSends() {
		total += s.Sends(i, at)
	}
	return total
}

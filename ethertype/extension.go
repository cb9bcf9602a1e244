package ethertype

import "encoding/binary"

// Sizes of the headers that may precede a message's data in the payload, in bytes.
const (
	ImmediateSize = 4  // the immediate data of a KindData frame with FlagImmediate
	RDMASize      = 16 // the RDMA extension of every KindRDMAWrite and KindRDMARead frame
	RecordSize    = 8  // the Record before each message of a packed frame
)

// RDMA is the extension of a KindRDMAWrite or KindRDMARead frame: the address of the message in the
// owner's memory. A fragment of a write goes to Addr plus the header's Offset.
type RDMA struct {
	Addr      uint64 // virtual address at the owner
	Handle    uint32 // the owner's memory handle
	Immediate uint32 // immediate data of a write, valid with FlagImmediate
}

// Put encodes r into the first RDMASize bytes of b.
func (r RDMA) Put(b []byte) {
	b = b[:RDMASize]
	binary.BigEndian.PutUint64(b, r.Addr)
	binary.BigEndian.PutUint32(b[8:], r.Handle)
	binary.BigEndian.PutUint32(b[12:], r.Immediate)
}

// ParseRDMA splits the payload of a KindRDMAWrite or KindRDMARead frame. Header.Parse has already
// checked its length.
func ParseRDMA(payload []byte) (r RDMA, data []byte) {
	b := payload[:RDMASize]
	r.Addr = binary.BigEndian.Uint64(b)
	r.Handle = binary.BigEndian.Uint32(b[8:])
	r.Immediate = binary.BigEndian.Uint32(b[12:])
	return r, payload[RDMASize:]
}

// PutImmediate encodes immediate data into the first ImmediateSize bytes of b.
func PutImmediate(b []byte, imm uint32) { binary.BigEndian.PutUint32(b[:ImmediateSize], imm) }

// ParseImmediate splits the payload of a KindData frame with FlagImmediate. Header.Parse has
// already checked its length.
func ParseImmediate(payload []byte) (imm uint32, data []byte) {
	return binary.BigEndian.Uint32(payload[:ImmediateSize]), payload[ImmediateSize:]
}

// Record precedes each message in a packed frame. Records and the data after them are padded to a
// multiple of RecordSize.
type Record struct {
	Size      uint16
	Immediate uint32
	HasImm    bool
}

// Packed returns the payload bytes of a message of n bytes in a packed frame, including record and
// padding.
func Packed(n int) int { return RecordSize + (n+RecordSize-1)&^(RecordSize-1) }

// Put encodes r into the first RecordSize bytes of b.
func (r Record) Put(b []byte) {
	b = b[:RecordSize]
	binary.BigEndian.PutUint16(b, r.Size)
	var flags uint16
	if r.HasImm {
		flags = uint16(FlagImmediate)
	}
	binary.BigEndian.PutUint16(b[2:], flags)
	binary.BigEndian.PutUint32(b[4:], r.Immediate)
}

// NextRecord removes the first message from the payload of a packed frame. It returns the message
// and the rest. If ok is false, the bytes do not hold a complete record, or the record has an
// unknown flag; the frame is then malformed from there on.
func NextRecord(payload []byte) (r Record, data, rest []byte, ok bool) {
	if len(payload) < RecordSize {
		return Record{}, nil, nil, false
	}
	r.Size = binary.BigEndian.Uint16(payload)
	flags := Flags(binary.BigEndian.Uint16(payload[2:]))
	r.HasImm = flags&FlagImmediate != 0
	r.Immediate = binary.BigEndian.Uint32(payload[4:])
	if flags&^FlagImmediate != 0 || Packed(int(r.Size)) > len(payload) {
		return Record{}, nil, nil, false
	}
	return r, payload[RecordSize : RecordSize+int(r.Size)], payload[Packed(int(r.Size)):], true
}

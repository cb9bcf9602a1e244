package ethertype

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mdlayher/ethernet"
)

// Default is the EtherType that Bobnet uses unless configured otherwise:
// IEEE 802 local experimental EtherType 1.
const Default ethernet.EtherType = 0x88B5

// Fabric is the default EtherType of frames that carry the emulated Myrinet: IEEE 802 local
// experimental EtherType 2. Their header has the size of a Header, with kinds that Parse refuses.
const Fabric ethernet.EtherType = 0x88B6

// Version is the only header version.
const Version = 1

// Sizes of the headers before the payload, and limits that follow from them, in bytes.
const (
	EthernetSize = 14                      // dst, src, type
	BaseSize     = 48                      // the Bobnet header
	HeaderSize   = EthernetSize + BaseSize // both
	MaxMTU       = 65535                   // largest MTU a Linux interface has
	MinMTU       = 68                      // smallest
	MaxFrame     = EthernetSize + MaxMTU   // largest frame
	MaxSize      = MaxFrame - HeaderSize   // largest payload
	PortAll      = uint16(0)               // frames to this port go to every NIC on the interface
)

// The field table: where each field of the frame starts.
const (
	fieldDst     = 0
	fieldSrc     = 6
	fieldType    = 12
	fieldVersion = 14
	fieldKind    = 15
	fieldFlags   = 16
	fieldDstPort = 18
	fieldSrcPort = 20
	fieldTag     = 22
	fieldSeq     = 26
	fieldAck     = 30
	fieldMsg     = 34
	fieldSack    = 38
	fieldOffset  = 46
	fieldLength  = 50
	fieldSize    = 54
	fieldCount   = 56
	fieldCRC     = 58
)

// Kind is the purpose of a frame.
type Kind uint8

// The kinds. Data, RDMAWrite, RDMARead and ReadData are sequenced: they occupy a sequence number
// and are acknowledged on the reliable levels. The others are not.
const (
	KindInvalid    Kind = iota
	KindData            // fragment of a message, or several whole messages (FlagPacked)
	KindRDMAWrite       // fragment of a one-sided write; payload starts with an RDMA extension
	KindAck             // acknowledgement on its own; payload: further selective bits, or none
	KindRequest         // connection request
	KindAccept          // acceptance of a connection request
	KindReject          // refusal of a connection request, with a reason
	KindProbe           // full-size frame that proves the MTU towards the server
	KindProbeAck        // full-size answer that proves the MTU towards the client
	KindDisconnect      // end of a connection; payload: the reason; Msg: the message at fault
	KindReset           // answer to a frame for a connection that does not exist or has ended
	KindQuery           // name service: query for a name; Sack: a nonce
	KindAnswer          // name service: answer to a query; Sack: the query's nonce
	KindEcho            // request of bobnet ping
	KindEchoReply       // answer to a KindEcho frame
	KindRDMARead        // request of a one-sided read of Length bytes; payload: an RDMA extension; Msg numbers the reads
	KindReadData        // fragment of the data that read Msg has requested
	KindRetry           // answer to a Request: repeat the Request with the token in Sack, which proves the requester's address
	KindPiece           // piece Count of the long frame with number Msg; payload: bytes of that frame, which has Length bytes, from Offset on
	KindTrial           // sent by a link to its own address to measure methods of sending; Parse refuses it, because no station needs it
	kindEnd
)

// Sequenced reports whether frames of kind k occupy a sequence number.
func (k Kind) Sequenced() bool {
	return k == KindData || k == KindRDMAWrite || k == KindRDMARead || k == KindReadData
}

// Follows reports whether a frame of kind k may share an Ethernet frame with others. These are the
// kinds that a connection sends all the time.
func (k Kind) Follows() bool { return k.Sequenced() || k == KindAck }

// Flags qualify a frame.
type Flags uint16

// The flags.
const (
	FlagLast      Flags = 1 << iota // last fragment of its message
	FlagImmediate                   // the message carries immediate data
	FlagPacked                      // KindData only: the payload is Count whole messages, each after a Record
	FlagAckNow                      // acknowledge without delay
	FlagWholeCRC                    // the CRC covers the payload too
	FlagRetry                       // this sequence number was sent before
	FlagMore                        // another frame of the same NIC follows in the same Ethernet frame, without a gap: see Next
	_                               // reserved
	FlagTakesLong                   // the path of the connection carries long frames in both directions; a Probe with this flag asks to receive them
	FlagUnordered                   // KindRDMAWrite only: the write need not wait for earlier messages
	flagEnd

	// flagsReserved are the undefined bits. Parse refuses a frame in which one of them is set.
	flagsReserved = 0x80 | ^(flagEnd - 1)
)

// Header is a decoded frame header. Parse and Put convert; neither allocates.
type Header struct {
	Dst, Src MAC
	Type     ethernet.EtherType
	Kind     Kind
	Flags    Flags
	DstPort  uint16
	SrcPort  uint16
	Tag      uint32
	Seq      Seq
	Ack      Seq
	Msg      Seq
	Sack     uint64
	Offset   uint32
	Length   uint32
	Size     uint16
	Count    uint16
}

// Errors of Parse. They carry no detail, because Parse returns them for hostile bytes at line rate.
// Count them by identity.
var (
	ErrShort   = errors.New("ethertype: frame is shorter than its header or size field")
	ErrVersion = errors.New("ethertype: unknown header version")
	ErrKind    = errors.New("ethertype: unknown frame kind")
	errFlags   = errors.New("ethertype: unknown flag, or flag not allowed for the frame's kind")
	ErrCRC     = errors.New("ethertype: CRC32C does not match")
	ErrRange   = errors.New("ethertype: fragment lies outside its message")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Parse decodes the header at the start of frame and returns the payload, a part of frame. It
// checks length, version, kind, flags and CRC, in that order. It also checks that Offset and Size
// of a data fragment lie within Length; a read request has no data. It does not check Dst and Type,
// because the link has done so. On ErrCRC h holds the frame's contents, valid or not; on other
// errors it is undefined. Put of an accepted header yields the same bytes, except for the CRC.
func (h *Header) Parse(frame []byte) (payload []byte, err error) { return h.ParseBegin(frame, 0) }

// ParseBegin is Parse of a frame whose last rest bytes are not available. The payload is the
// available part. If bytes are missing that the CRC covers, the error is ErrShort.
func (h *Header) ParseBegin(frame []byte, rest int) (payload []byte, err error) {
	if len(frame) < HeaderSize {
		return nil, ErrShort
	}
	h.get(frame)
	have := len(frame) - HeaderSize
	switch {
	case frame[fieldVersion] != Version:
		return nil, ErrVersion
	case h.Kind == KindInvalid || h.Kind >= KindTrial:
		return nil, ErrKind
	case h.Flags&flagsReserved != 0:
		return nil, errFlags
	case have < int(h.Size) && (have+rest < int(h.Size) || h.Flags&FlagWholeCRC != 0):
		return nil, ErrShort
	}
	payload = frame[HeaderSize : HeaderSize+min(have, int(h.Size))]
	if binary.BigEndian.Uint32(frame[fieldCRC:]) != checksum((*[fieldCRC]byte)(frame), payload, h.Flags) {
		return nil, ErrCRC
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	if h.Flags&FlagMore != 0 && have+rest < int(h.Size)+HeaderSize { // the next frame is not available
		return nil, ErrShort
	}
	return payload, nil
}

// Next returns the part of an Ethernet frame that follows its first Bobnet frame, or nil if no
// other frame follows. h is the header of the first frame, decoded by Parse. The result is
// unchecked and may contain Ethernet padding.
func (h *Header) Next(frame []byte) []byte {
	end := HeaderSize + int(h.Size)
	if h.Flags&FlagMore == 0 || end > len(frame) { // more bytes than are available; see ParseBegin
		return nil
	}
	return frame[end:]
}

// get decodes the HeaderSize bytes at the start of b as they are.
func (h *Header) get(b []byte) {
	b = b[:HeaderSize:HeaderSize]
	be := binary.BigEndian
	h.Dst = MAC(b[fieldDst:])
	h.Src = MAC(b[fieldSrc:])
	h.Type = ethernet.EtherType(be.Uint16(b[fieldType:]))
	h.Kind = Kind(b[fieldKind])
	h.Flags = Flags(be.Uint16(b[fieldFlags:]))
	h.DstPort = be.Uint16(b[fieldDstPort:])
	h.SrcPort = be.Uint16(b[fieldSrcPort:])
	h.Tag = be.Uint32(b[fieldTag:])
	h.getRest(b)
}

// getRest is get for the fields that a Prefix does not hold.
func (h *Header) getRest(b []byte) {
	b = b[:HeaderSize:HeaderSize]
	be := binary.BigEndian
	h.Seq = Seq(be.Uint32(b[fieldSeq:]))
	h.Ack = Seq(be.Uint32(b[fieldAck:]))
	h.Msg = Seq(be.Uint32(b[fieldMsg:]))
	h.Sack = be.Uint64(b[fieldSack:])
	h.Offset = be.Uint32(b[fieldOffset:])
	h.Length = be.Uint32(b[fieldLength:])
	h.Size = be.Uint16(b[fieldSize:])
	h.Count = be.Uint16(b[fieldCount:])
}

// check returns an error if the fields of the header contradict each other.
func (h *Header) check() error {
	packed := h.Flags&FlagPacked != 0
	switch {
	case packed && h.Kind != KindData || h.Flags&FlagUnordered != 0 && h.Kind != KindRDMAWrite || h.Flags&FlagMore != 0 && !h.Kind.Follows():
		return errFlags
	case packed || !h.Kind.Sequenced():
		return nil
	}
	data := int64(h.Size) - int64(h.Extension())
	if data < 0 || int64(h.Offset)+data > int64(h.Length) || data > 0 && h.Kind == KindRDMARead {
		return ErrRange
	}
	return nil
}

// Extension returns how many bytes of the payload precede the message's data in a sequenced frame
// that is not packed.
func (h *Header) Extension() int {
	switch {
	case h.Kind == KindRDMAWrite || h.Kind == KindRDMARead:
		return RDMASize
	case h.Kind == KindReadData:
		return 0
	case h.Flags&FlagImmediate != 0:
		return ImmediateSize
	}
	return 0
}

// Put encodes h into the first HeaderSize bytes of b, without the CRC. Call Seal when the payload
// is in place.
func (h *Header) Put(b []byte) {
	b = b[:HeaderSize:HeaderSize]
	be, w := binary.BigEndian, h.words()
	be.PutUint64(b, w[0])
	be.PutUint64(b[8:], w[1])
	be.PutUint64(b[16:], w[2])
	// Words again, as Seal reads them: a processor stalls if it reads memory that it has just
	// written in smaller pieces.
	be.PutUint64(b[fieldTag+2:], uint64(h.Tag)<<48|uint64(h.Seq)<<16|uint64(h.Ack)>>16)
	be.PutUint64(b[fieldAck+2:], uint64(h.Ack)<<48|uint64(h.Msg)<<16|h.Sack>>48)
	be.PutUint64(b[fieldSack+2:], h.Sack<<16|uint64(h.Offset)>>16)
	be.PutUint64(b[fieldOffset+2:], uint64(h.Offset)<<48|uint64(h.Length)<<16|uint64(h.Size))
	be.PutUint16(b[fieldCount:], h.Count)
}

// words returns the first 24 bytes of the header.
func (h *Header) words() (w [3]uint64) {
	dst, src := h.Dst.bits(), h.Src.bits()
	w[0] = dst<<16 | src>>32
	w[1] = src<<32 | uint64(h.Type)<<16 | Version<<8 | uint64(h.Kind)
	w[2] = uint64(h.Flags)<<48 | uint64(h.DstPort)<<32 | uint64(h.SrcPort)<<16 | uint64(h.Tag)>>16
	return w
}

// Seal writes the CRC into head, which Put has filled. rest are the parts that follow the header on
// the wire, in order; Seal reads them only if FlagWholeCRC is set. head may be longer than
// HeaderSize: the bytes beyond are payload.
func Seal(head []byte, rest ...[]byte) {
	sum := sumHeader((*[fieldCRC]byte)(head))
	if Flags(binary.BigEndian.Uint16(head[fieldFlags:]))&FlagWholeCRC != 0 {
		sum = crc32.Update(sum, castagnoli, head[HeaderSize:])
		for _, part := range rest {
			sum = crc32.Update(sum, castagnoli, part)
		}
	}
	binary.BigEndian.PutUint32(head[fieldCRC:], sum)
}

func checksum(head *[fieldCRC]byte, payload []byte, flags Flags) uint32 {
	sum := sumHeader(head)
	if flags&FlagWholeCRC != 0 {
		sum = crc32.Update(sum, castagnoli, payload)
	}
	return sum
}

// sumTable is sumHeader with the standard library.
func sumTable(head *[fieldCRC]byte) uint32 { return crc32.Update(0, castagnoli, head[:]) }

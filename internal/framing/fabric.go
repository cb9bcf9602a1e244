package framing

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mdlayher/ethernet"

	"github.com/bobnet-go/bobnet/ethertype"
)

// A packet of the fabric, as it appears on one cable, consists of route, type, payload and check
// byte:
//
//	bytes  what
//	0..255  route: a turn for each switch ahead, 0x80 and six bits of two's complement
//	     2  type: 0..0x7fff, so that its first byte differs from a route's
//	   any  payload
//	     1  CRC-8 of everything before it
//
// A switch strips the first byte and forwards the rest: the turn plus the number of the input port
// is the number of the output port.

// Sizes and limits of packets.
const (
	FabricTypeSize = 2
	FabricCRCSize  = 1
	FabricLeast    = FabricTypeSize + FabricCRCSize // bytes of a packet without route and payload
	MaxHops        = 255                            // longest route
	MaxTurn        = 31                             // greatest turn; the smallest is -MaxTurn
	MaxFabricType  = 0x7fff

	routeMark = 0x80
	turnMask  = 0x3f
)

// PutTurn returns the route byte of a turn in the range -MaxTurn..MaxTurn.
func PutTurn(turn int) byte { return routeMark | byte(turn)&turnMask }

// Turn decodes a route byte. It reports false for the first byte of a type.
func Turn(first byte) (turn int, ok bool) {
	return int(int8(first<<2) >> 2), first&routeMark != 0
}

// FabricKind is the purpose of a frame of the fabric.
type FabricKind uint8

// The kinds. Their values do not overlap with those of ethertype.Kind.
const (
	FabricPacket FabricKind = 0x80 + iota // a packet, or a part of one
	FabricCredit                          // credit alone
	FabricBreak                           // packet Packet is abandoned: it ends, truncated, at Offset
	FabricHello                           // announces the station at an end of the cable, so that the neighbour can find it
	fabricEnd
)

// Field offsets of the fabric's frames, after the outer layout. Header size and check field are the
// same as in ethertype.Header.
const (
	fabricTag    = OuterSize
	fabricSeq    = 26
	fabricCredit = 30
	fabricPacket = 34
	fabricOffset = 38
	fabricLength = 42
	fabricSize   = 46
	fabricZero   = 48 // ten zero bytes
	fabricCRC    = 58
)

// FabricHeader is the decoded header of a frame between the two ends of a cable. An end is a port
// of a switch, or a card; its address is a MAC address and a port. Parse and Put convert; neither
// allocates.
type FabricHeader struct {
	Dst, Src ethertype.MAC
	Type     ethernet.EtherType
	Kind     FabricKind
	DstPort  uint16        // receiving end of the cable
	SrcPort  uint16        // sending end of the cable
	Tag      uint32        // incarnations of the receiving and the sending end, mixed; in a FabricHello only the sending end's
	Seq      ethertype.Seq // number of the frame on this cable, in this direction; in a FabricHello the next number
	Credit   ethertype.Seq // the sender of this frame has room for frames up to this one, exclusive
	Packet   ethertype.Seq // number of the packet on this cable, in this direction; in a FabricHello the receiving end's incarnation, 0 if unknown
	Offset   uint32        // position of the part in the packet; in a FabricHello the most bytes that a frame to its sender may carry
	Length   uint32        // bytes of the packet on this cable: route, type, payload, CRC-8; in a FabricHello the longest packet that its sender accepts
	Size     uint16        // bytes after the header; Ethernet may pad them
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrReserved means that a FabricHeader has a reserved byte that is not 0.
var ErrReserved = errors.New("ethertype: a byte of the header that has no meaning is not 0")

// isFabric reports whether frame has a kind of the fabric, whatever its EtherType. It does not
// check that the frame is intact.
func isFabric(frame []byte) bool {
	return len(frame) > OffsetKind && frame[OffsetKind] >= uint8(FabricPacket) && frame[OffsetKind] < uint8(fabricEnd)
}

// Parse decodes the header at the start of frame, and returns the part of the packet that follows.
// It checks, in this order: length, version, kind, reserved bytes, CRC32C, and that the part lies
// within its packet. It checks neither Dst and Type nor the CRC-8, which covers the whole packet.
// On ErrCRC, h holds the fields of the damaged frame; on other errors it is undefined.
func (h *FabricHeader) Parse(frame []byte) (part []byte, err error) { return h.ParseBegin(frame, 0) }

// ParseBegin is Parse for a frame whose last rest bytes are missing. It returns the bytes of the
// part that are present; Size is the length of the whole part.
func (h *FabricHeader) ParseBegin(frame []byte, rest int) (part []byte, err error) {
	if len(frame) < ethertype.HeaderSize {
		return nil, ethertype.ErrShort
	}
	h.get(frame)
	have := len(frame) - ethertype.HeaderSize
	switch {
	case frame[OffsetVersion] != ethertype.Version:
		return nil, ethertype.ErrVersion
	case h.Kind < FabricPacket || h.Kind >= fabricEnd:
		return nil, ethertype.ErrKind
	case have+rest < int(h.Size):
		return nil, ethertype.ErrShort
	case !zero(frame[fabricZero:fabricCRC]) || !zero(frame[OffsetFlags:OffsetDstPort]):
		return nil, ErrReserved
	case binary.BigEndian.Uint32(frame[fabricCRC:]) != crc32.Checksum(frame[:fabricCRC], castagnoli):
		return nil, ethertype.ErrCRC
	case !h.fits():
		return nil, ethertype.ErrRange
	}
	return frame[ethertype.HeaderSize:][:min(have, int(h.Size))], nil
}

// fits reports whether the fields are consistent.
func (h *FabricHeader) fits() bool {
	switch h.Kind {
	case FabricPacket:
		return h.Size > 0 && h.Length >= FabricLeast && uint64(h.Offset)+uint64(h.Size) <= uint64(h.Length)
	case FabricBreak:
		return h.Size == 0 && h.Offset < h.Length
	}
	return h.Size == 0
}

// get decodes the header without checking it.
func (h *FabricHeader) get(b []byte) {
	b = b[:ethertype.HeaderSize:ethertype.HeaderSize]
	be := binary.BigEndian
	*h = FabricHeader{
		Dst: ethertype.MAC(b[OffsetDst:]), Src: ethertype.MAC(b[OffsetSrc:]), Type: ethernet.EtherType(be.Uint16(b[OffsetType:])),
		Kind: FabricKind(b[OffsetKind]), DstPort: be.Uint16(b[OffsetDstPort:]), SrcPort: be.Uint16(b[OffsetSrcPort:]),
		Tag: be.Uint32(b[fabricTag:]), Seq: ethertype.Seq(be.Uint32(b[fabricSeq:])), Credit: ethertype.Seq(be.Uint32(b[fabricCredit:])),
		Packet: ethertype.Seq(be.Uint32(b[fabricPacket:])), Offset: be.Uint32(b[fabricOffset:]), Length: be.Uint32(b[fabricLength:]),
		Size: be.Uint16(b[fabricSize:]),
	}
}

// Put encodes h, with its CRC32C, into the first HeaderSize bytes of b. b must have that length at
// least. The caller puts the part of the packet after them.
func (h *FabricHeader) Put(b []byte) {
	b = b[:ethertype.HeaderSize:ethertype.HeaderSize]
	be := binary.BigEndian
	o := Outer{Dst: h.Dst, Src: h.Src, Type: h.Type, Kind: uint8(h.Kind), DstPort: h.DstPort, SrcPort: h.SrcPort}
	o.Put(b)
	be.PutUint32(b[fabricTag:], h.Tag)
	be.PutUint32(b[fabricSeq:], uint32(h.Seq))
	be.PutUint32(b[fabricCredit:], uint32(h.Credit))
	be.PutUint32(b[fabricPacket:], uint32(h.Packet))
	be.PutUint32(b[fabricOffset:], h.Offset)
	be.PutUint32(b[fabricLength:], h.Length)
	be.PutUint16(b[fabricSize:], h.Size)
	clear(b[fabricZero:fabricCRC])
	ethertype.Seal(b)
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

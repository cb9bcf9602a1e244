package framing

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mdlayher/ethernet"

	"github.com/bobnet-go/bobnet/ethertype"
)

// A packet of the fabric, as it stands on one link, is its route, its type, its payload
// and its check octet:
//
//	octets  what
//	0..255  route: a turn for each switch ahead, 0x80 and six bits of two's complement
//	     2  type: 0..0x7fff, so that its first octet is none of the route's
//	   any  payload
//	     1  CRC-8 of all before it
//
// A switch takes the first octet off and sends what is left to the port that lies so
// many beyond the one by which the packet came.

// Sizes and limits of packets.
const (
	FabricTypeSize = 2
	FabricCRCSize  = 1
	FabricLeast    = FabricTypeSize + FabricCRCSize // octets of a packet without route and payload
	MaxHops        = 255                            // longest route
	MaxTurn        = 31                             // greatest turn; the least is -MaxTurn
	MaxFabricType  = 0x7fff

	routeMark = 0x80
	turnMask  = 0x3f
)

// PutTurn returns the route's octet for a turn, which lies in -MaxTurn..MaxTurn.
func PutTurn(turn int) byte { return routeMark | byte(turn)&turnMask }

// Turn reads an octet of a route. It reports false for the first octet of a type.
func Turn(octet byte) (turn int, ok bool) {
	return int(int8(octet<<2) >> 2), octet&routeMark != 0
}

// FabricKind says what a frame of the fabric is for.
type FabricKind uint8

// The kinds. They are no kinds of a Header, nor the other way round.
const (
	FabricPacket FabricKind = 0x80 + iota // a packet, or a part of one
	FabricCredit                          // credit on its own
	FabricBreak                           // the rest of packet Packet does not come: it ends, truncated, at Offset
	FabricHello                           // the station of a cable's end is there, and may be found
	fabricEnd
)

// The field table of the fabric's frames, behind the outer layout. Header and check are
// as long as those of a Header and lie in the same places.
const (
	fabricTag    = OuterSize
	fabricSeq    = 26
	fabricCredit = 30
	fabricPacket = 34
	fabricOffset = 38
	fabricLength = 42
	fabricSize   = 46
	fabricZero   = 48 // ten octets that are 0
	fabricCRC    = 58
)

// FabricHeader is the decoded header of a frame between the two ends of a cable: a
// port of a switch or a card is a MAC address and a port. Parse and Put convert;
// neither allocates.
type FabricHeader struct {
	Dst, Src ethertype.MAC
	Type     ethernet.EtherType
	Kind     FabricKind
	DstPort  uint16        // the end of the cable that the frame goes to
	SrcPort  uint16        // and the one that it comes from
	Tag      uint32        // which incarnation of the receiving end, and of the sending one, mixed; of a FabricHello the latter
	Seq      ethertype.Seq // of a FabricPacket or FabricBreak: number of the frame on this cable, in this direction; of a FabricHello: of the next
	Credit   ethertype.Seq // frames up to this one, exclusive, find room at the sender of this frame
	Packet   ethertype.Seq // number of the packet on this cable, in this direction; of a FabricHello: the receiving end's incarnation, 0 if not known
	Offset   uint32        // where in the packet Size octets of it belong; of a FabricHello: most octets that a frame may carry to its sender
	Length   uint32        // octets of the packet on this cable: route, type, payload, CRC-8; of a FabricHello: the most that its sender takes
	Size     uint16        // octets behind the header (Ethernet may pad it)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrReserved is the error of parsing a FabricHeader whose reserved byte is not 0.
var ErrReserved = errors.New("ethertype: an octet of the header that has no meaning is not 0")

// isFabric reports whether frame is one of the fabric's, whatever its EtherType, intact
// or not.
func isFabric(frame []byte) bool {
	return len(frame) > OffsetKind && frame[OffsetKind] >= uint8(FabricPacket) && frame[OffsetKind] < uint8(fabricEnd)
}

// Parse decodes the header at the start of frame and returns the part of the packet
// behind it. It checks length, version, kind, what is kept, CRC32C, and that the part
// lies within its packet, in that order. It does not look at Dst and Type, nor at the
// CRC-8, which covers the packet. On ErrCRC h is what the frame says, true or not; on
// other errors it is undefined.
func (h *FabricHeader) Parse(frame []byte) (part []byte, err error) { return h.ParseBegin(frame, 0) }

// ParseBegin is Parse of a frame the last rest octets of which are not at hand. The part is
// what there is of it; Size says how long it is.
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

// fits reports whether the frame agrees with itself.
func (h *FabricHeader) fits() bool {
	switch h.Kind {
	case FabricPacket:
		return h.Size > 0 && h.Length >= FabricLeast && uint64(h.Offset)+uint64(h.Size) <= uint64(h.Length)
	case FabricBreak:
		return h.Size == 0 && h.Offset < h.Length
	}
	return h.Size == 0
}

// get decodes the header as it is.
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

// Put encodes h, with its CRC32C, into the first HeaderSize bytes of b, which must be
// that long. The part of the packet goes behind.
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

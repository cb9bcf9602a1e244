package framing

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/mdlayher/ethernet"
)

// A long frame is longer than the MTU of its interface. The kernel, a virtual interface, a
// bridge and a card pass such a frame on if it is a TCP segment that can be cut later: the
// offload (TSO, GSO) that makes TCP fast. So a long frame has true headers of IPv6 and TCP
// between the Ethernet header and the Bobnet header. Virtual networks never cut it.
//
// Behind an Ethernet header with the type of IPv6:
//
//	offset  size  what
//	     0     1  0x60: IPv6
//	     1     3  0
//	     4     2  length of what follows the IPv6 header
//	     6     1  6: TCP
//	     7     1  1: hop limit
//	     8    16  address of the sender:   ff10:T:C:0:M
//	    24    16  address of the receiver: ff10:T:0:0:0:M
//	    40     2  source port: that of the Bobnet header
//	    42     2  destination port, likewise
//	    44     4  sequence number: where in the long frame the segment begins, 0 if it is whole
//	    48     4  acknowledgement number: the CRC32C of the Bobnet header, which names the long frame
//	    52     1  0x50: TCP, no options
//	    53     1  0x10: ACK
//	    54     2  window: bytes of the whole long frame behind these headers
//	    56     2  checksum of TCP, for cards; Bobnet does not read it
//	    58     2  urgent pointer, which TCP ignores without URG: the low bits of the sequence number
//	    60        the Bobnet frame from its version on
//
// T is the EtherType that the frame has otherwise (2 bytes), C the tag of the Bobnet header (4), M the station's
// MAC (6). Whoever cuts the frame copies all these fields to each segment, and adds to TCP's sequence number. So a
// segment alone names its connection, its long frame, its offset in it and the frame's length, and
// the receiving link joins the segments in any order (see Joiner). Nothing above the link sees
// segments: a frame is judged, opened if it is sealed, and acknowledged as a whole, and sent again as a whole
// if one of its segments is lost.
//
// No host owns an address of ff10::/16, and no stack answers to one. These are multicast
// addresses of the reserved scope 0, which a node drops silently (RFC 4291, section 2.7), and
// which no error may be sent for (RFC 4443, section 2.4). Linux drops them where IPv6
// begins: before its firewall, connection tracking and routes. A bridge with
// net.bridge.bridge-nf-call-ip6tables=1 passes them to both all the same. If rules there drop
// them, the path does not carry long frames. Unicast addresses that no host owns
// are answered: a host without a route to them sends "no route", a router "hop limit
// exceeded". The Ethernet addresses are those of stations, so bridges and switches see no multicast.
// A host's counter Ip6InHdrErrors counts them.
//
// TCP, and not UDP: every kernel takes such frames from a packet socket (UDP since 6.2), every
// card cuts TCP and few cut UDP, and a receiving host joins segments of TCP again (GRO) also
// if they are for no socket of its own; then most frames arrive whole. Across a bridge both are equally fast.
//
// A receiver compares every byte of the headers with the Bobnet header behind them, except
// the checksum. The CRC32C of the Bobnet header covers that header. The data are covered as in
// every other frame: by Ethernet's check sequence on a wire, and in addition by the CRC of
// the whole frame (ethertype.FlagWholeCRC) or by the tags of a sealed frame.
//
// A station on a path that does not carry long frames never gets any; so a connection
// proves its path first.

// Sizes of long frames, in bytes.
const (
	// LongHeader is the number of bytes between a long frame's Ethernet and Bobnet headers.
	LongHeader = ipSize + tcpSize
	// LongMTU is the greatest number of bytes after the Ethernet header of a long frame, without
	// LongHeader. The kernel segments nothing longer than 65,535 bytes in all.
	LongMTU = 65535 - ethertype.EthernetSize - LongHeader

	ipSize, tcpSize = 40, 20
)

// Offsets in a long frame that the kernel's filter reads, and the value of the protocol field.
const (
	LongProtocol    = ethertype.EthernetSize + 6 // one byte
	LongDst         = ethertype.EthernetSize + longTo
	LongDstPort     = ethertype.EthernetSize + 42
	LongProtocolTCP = 6
)

// Field offsets after the Ethernet header.
const (
	longLength = 4
	longFrom   = 8
	longTag    = longFrom + 4
	longTo     = 24
	longPorts  = 40
	longSeq    = 44
	longName   = 48
	longDoff   = 52
	longWindow = 54
	longSum    = 56
	longUrgent = 58

	hopLimit    = 1
	dataOffset  = tcpSize / 4 << 4
	flagACK     = 0x10
	longPrefix  = 0xff10
	addressSize = 16
	macAt       = addressSize - 6
)

// LongNet is the IPv6 network that contains the addresses of all long frames.
const LongNet = "ff10::/16"

// LongPrefix returns the first four bytes of the addresses of long frames of an EtherType.
func LongPrefix(typ ethernet.EtherType) uint32 { return longPrefix<<16 | uint32(typ) }

// PutLong writes an Ethernet header and the LongHeader bytes of a long frame's headers to b. size
// is the length of the frame without LongHeader, and begin holds its Ethernet and Bobnet headers.
func PutLong(b, begin []byte, size int) {
	b = b[: ethertype.EthernetSize+LongHeader : ethertype.EthernetSize+LongHeader]
	begin = begin[:ethertype.HeaderSize:ethertype.HeaderSize]
	be := binary.BigEndian
	copy(b, begin[:OffsetType])
	be.PutUint16(b[OffsetType:], uint16(ethernet.EtherTypeIPv6))
	data := size - ethertype.EthernetSize
	b = b[ethertype.EthernetSize:]
	putLongFixed((*[LongHeader]byte)(b), begin, data)
	be.PutUint16(b[longLength:], uint16(tcpSize+data))
	be.PutUint32(b[longSeq:], 0)
	be.PutUint16(b[longSum:], pseudoSum(b, tcpSize+data))
}

// putLongFixed writes the fields that all segments of a long frame share, and sets the others to 0.
// data is the number of bytes after the headers.
func putLongFixed(b *[LongHeader]byte, begin []byte, data int) {
	be := binary.BigEndian
	*b = [LongHeader]byte{0: 6 << 4, 6: LongProtocolTCP, 7: hopLimit, longDoff: dataOffset, longDoff + 1: flagACK}
	prefix := LongPrefix(ethernet.EtherType(be.Uint16(begin[OffsetType:])))
	be.PutUint32(b[longFrom:], prefix)
	copy(b[longTag:], begin[offsetTag:][:4])
	copy(b[longFrom+macAt:], begin[OffsetSrc:][:6])
	be.PutUint32(b[longTo:], prefix)
	copy(b[longTo+macAt:], begin[OffsetDst:][:6])
	copy(b[longPorts:], begin[OffsetSrcPort:][:2])
	copy(b[longPorts+2:], begin[OffsetDstPort:][:2])
	copy(b[longName:], begin[offsetCRC:][:4])
	be.PutUint16(b[longWindow:], uint16(data))
	copy(b[longUrgent:], begin[offsetSeq+2:][:2])
}

// SetSegment turns b into the segment at the offset at of a long frame, as segmentation offload
// does. b has the headers that PutLong has written, followed by the segment's part of the frame.
// SetSegment does not correct the checksum.
func SetSegment(b []byte, at int) {
	outer := b[ethertype.EthernetSize:]
	binary.BigEndian.PutUint16(outer[longLength:], uint16(len(outer)-ipSize))
	binary.BigEndian.PutUint32(outer[longSeq:], uint32(at))
}

// Offsets of the fields of the Bobnet header that identify a long frame. A sealed frame has the
// session and the counter in the places of the tag and the sequence number.
const (
	offsetTag = OffsetSrcPort + 2
	offsetSeq = offsetTag + 4
	offsetCRC = ethertype.HeaderSize - 4
)

// pseudoSum returns the folded sum of the TCP pseudo header. The checksum field holds it until a
// card or the kernel adds the rest.
func pseudoSum(b []byte, length int) uint16 {
	sum := uint32(LongProtocolTCP + length)
	for at := longFrom; at < longPorts; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[at:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// LongKind classifies a frame that a socket for long frames has received.
type LongKind uint8

// The kinds.
const (
	LongForged LongKind = iota // neither
	LongWhole                  // a long frame as it was sent
	LongCut                    // a segment of a long frame
)

// JudgeLong classifies a frame of size bytes that begins with b; typ is the EtherType of Bobnet's
// frames. A segment that does not begin with the Bobnet header is judged by its IPv6 and TCP
// headers alone. A whole frame that does not start with a Bobnet header is forged.
func JudgeLong(b []byte, size int, typ ethernet.EtherType) LongKind {
	const header = ethertype.EthernetSize + LongHeader
	be := binary.BigEndian
	if len(b) < header || be.Uint16(b[OffsetType:]) != uint16(ethernet.EtherTypeIPv6) {
		return LongForged
	}
	outer := (*[LongHeader]byte)(b[ethertype.EthernetSize:])
	here, at, whole := size-header, be.Uint32(outer[longSeq:]), be.Uint16(outer[longWindow:])
	if here <= 0 || int(be.Uint16(outer[longLength:])) != tcpSize+here || uint64(at)+uint64(here) > uint64(whole) {
		return LongForged
	}
	// Reconstruct the headers from the Bobnet header, as if it followed them.
	var begin [ethertype.HeaderSize]byte
	copy(begin[:], b[:OffsetType])
	be.PutUint16(begin[OffsetType:], uint16(typ))
	if at == 0 {
		if len(b) < LongHeader+ethertype.HeaderSize || b[header] != ethertype.Version {
			return LongForged
		}
		copy(begin[ethertype.EthernetSize:], b[header:])
	} else {
		copy(begin[OffsetSrcPort:], outer[longPorts:][:2])
		copy(begin[OffsetDstPort:], outer[longPorts+2:][:2])
		copy(begin[offsetTag:], outer[longTag:][:4])
		copy(begin[offsetSeq+2:], outer[longUrgent:][:2])
		copy(begin[offsetCRC:], outer[longName:][:4])
	}
	var want [LongHeader]byte
	putLongFixed(&want, begin[:], int(whole))
	copy(want[longLength:], outer[longLength:][:2])
	copy(want[longSeq:], outer[longSeq:][:4])
	copy(want[longSum:], outer[longSum:][:2])
	switch {
	case *outer != want:
		return LongForged
	case here < int(whole):
		return LongCut
	}
	return LongWhole
}

// ShortenLong turns the beginning of a whole long frame into the beginning of the ordinary frame
// that it carries, with EtherType typ. The result lies in b, at the end of the removed headers.
func ShortenLong(b []byte, typ ethernet.EtherType) []byte {
	view := b[LongHeader:]
	copy(view[:OffsetType], b)
	binary.BigEndian.PutUint16(view[OffsetType:], uint16(typ))
	return view
}

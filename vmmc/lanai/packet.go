package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

// typePacket is the type of this program's packets.
const typePacket = 0x0A56

// Sizes, in bytes.
const (
	pageSize  = 4096
	pageShift = 12

	headerSize = 64
	mostData   = pageSize // in a packet

	// Layout of a buffer in SRAM: room for the longest route, the type, the header, data, and the
	// CRC-8.
	typeAt   = station.MaxHops
	headerAt = typeAt + framing.FabricTypeSize
	dataAt   = headerAt + headerSize
	roomSend = dataAt + mostData + framing.FabricCRCSize
	roomRecv = framing.FabricLeast + headerSize + mostData
)

// packetSize is the maximum size of a packet in bytes, with the longest route.
const packetSize = roomSend

var longest = station.Longest{Size: packetSize}

// kind is the kind of a packet.
type kind uint8

const (
	kindChunk   kind = 1 + iota // data for memory
	kindControl                 // a message to the driver
	kindQuery                   // a message to the driver outside the channels: need not be reliable
	kindAnswer                  // of a channel
	kinds
)

// Flags of a packet.
const (
	flagNotify  = 1 << iota // notify the exporter
	flagChannel             // the packet has a channel and a position in the order
)

// header is the header of a packet, which precedes the data. Integers are big-endian.
//
//	offset  size  field
//	     0     1  kind
//	     1     1  flags
//	     2     2  port of the sending process
//	     4     6  the sending card
//	    10     2  0
//	    12     8  number of the sender's line, which increases
//	    20     8  number of the receiver's line that the sender knows, or 0
//	    28     4  position in the order of that line
//	    32     4  length of the data, in bytes
//	    36     8  physical address of the data's destination; in an answer, the offered epoch
//	    44     8  physical address of the data beyond the first page, or 0
//	    52     1  channel; bit 0x80 is set if it has no epoch; 0x40 is the channel's bit
//	    53     1  in an answer: the result of the packet
//	    54     2  0
//	    56     4  epoch of the channel
//	    60     4  stamp
type header struct {
	kind  kind
	flags uint8
	port  uint16
	from  ethertype.MAC
	line  uint64
	echo  uint64
	order uint32
	size  uint32
	to    [2]uint64
	ch    channels.Header
	reply channels.AnswerKind
}

const (
	chanInit = 0x80
	chanBit  = 0x40
	chanMask = 0x3f
)

// put encodes the header.
func (h *header) put(b []byte) {
	b = b[:headerSize]
	be := binary.BigEndian
	clear(b)
	b[0], b[1] = byte(h.kind), h.flags
	be.PutUint16(b[2:], h.port)
	copy(b[4:], h.from[:])
	be.PutUint64(b[12:], h.line)
	be.PutUint64(b[20:], h.echo)
	be.PutUint32(b[28:], h.order)
	be.PutUint32(b[32:], h.size)
	be.PutUint64(b[36:], h.to[0])
	be.PutUint64(b[44:], h.to[1])
	b[52] = h.ch.Channel&chanMask | h.ch.Bit<<6&chanBit
	if h.ch.Init {
		b[52] |= chanInit
	}
	b[53] = byte(h.reply)
	be.PutUint32(b[56:], h.ch.Epoch)
	be.PutUint32(b[60:], h.ch.Stamp)
}

// parse decodes a packet's header, and reports whether it is valid.
func (h *header) parse(b []byte) bool {
	if len(b) < headerSize {
		return false
	}
	be := binary.BigEndian
	h.kind, h.flags = kind(b[0]), b[1]
	h.port = be.Uint16(b[2:])
	copy(h.from[:], b[4:])
	h.line, h.echo, h.order = be.Uint64(b[12:]), be.Uint64(b[20:]), be.Uint32(b[28:])
	h.size = be.Uint32(b[32:])
	h.to = [2]uint64{be.Uint64(b[36:]), be.Uint64(b[44:])}
	h.ch = channels.Header{Channel: b[52] & chanMask, Bit: b[52] & chanBit >> 6, Init: b[52]&chanInit != 0,
		Epoch: be.Uint32(b[56:]), Stamp: be.Uint32(b[60:])}
	h.reply = channels.AnswerKind(b[53])
	return h.kind > 0 && h.kind < kinds && h.size <= mostData && int(h.size) == len(b)-headerSize
}

// scatter returns how many bytes belong to each of the two addresses. It reports false if the
// addresses and the length are inconsistent.
func (h *header) scatter() (first, second int, ok bool) {
	room := pageSize - int(h.to[0]%pageSize)
	first = min(int(h.size), room)
	second = int(h.size) - first
	return first, second, (second > 0) == (h.to[1] != 0) && h.to[1]%pageSize == 0
}

package lanai

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
)

// typeMessage is the packet type of AM-II's cards.
const typeMessage = 0x0a20

// kind is the kind of a packet.
type kind uint8

const (
	kindData   kind = 1 + iota // a message, on a channel
	kindAnswer                 // an ACK or NACK
	kindQuery                  // a driver's look-up of a name
	kindHas                    // answer to a query
	kindEnd
)

// header is the private header of a packet, which the card makes and no program touches
// (VNT, 5.1).
//
//	0 kind   1 channel, bit, init   2 answer   3 queue
//	4 epoch (4)   8 stamp (4)   12 from (6)   18 to (6)
//	of answers: 24 offer (4)
//	of data:    24 from port (2)   26 to port (2)   28 from endpoint (4)   32 to endpoint (4)
//	            36 op   38 length (2)
type header struct {
	kind             kind
	channel          channels.Header
	answer           channels.AnswerKind
	offer            uint32
	from, to         ethertype.MAC
	queue            queue
	fromPort, toPort uint16
	fromEnd, toEnd   uint32
	op               uint8
	length           int
}

const (
	baseHeader   = 24
	answerHeader = 28
	dataHeader   = 40

	bitFlag  = 1 << 6
	initFlag = 1 << 7
)

// put writes the header and returns its length.
func (h *header) put(b []byte) int {
	b[0], b[1], b[2], b[3] = byte(h.kind), h.channel.Channel|h.channel.Bit<<6, byte(h.answer), byte(h.queue)
	if h.channel.Init {
		b[1] |= initFlag
	}
	binary.LittleEndian.PutUint32(b[4:], h.channel.Epoch)
	binary.LittleEndian.PutUint32(b[8:], h.channel.Stamp)
	copy(b[12:18], h.from[:])
	copy(b[18:24], h.to[:])
	switch h.kind {
	case kindAnswer:
		binary.LittleEndian.PutUint32(b[24:], h.offer)
		return answerHeader
	case kindData:
		binary.LittleEndian.PutUint16(b[24:], h.fromPort)
		binary.LittleEndian.PutUint16(b[26:], h.toPort)
		binary.LittleEndian.PutUint32(b[28:], h.fromEnd)
		binary.LittleEndian.PutUint32(b[32:], h.toEnd)
		b[36], b[37] = h.op, 0
		binary.LittleEndian.PutUint16(b[38:], uint16(h.length))
		return dataHeader
	}
	return baseHeader
}

// parse decodes a packet's payload, and returns the part after the header. It returns false for a
// packet that no card sends.
func (h *header) parse(b []byte) (rest []byte, ok bool) {
	if len(b) < baseHeader {
		return nil, false
	}
	h.kind, h.answer, h.queue = kind(b[0]), channels.AnswerKind(b[2]), queue(b[3])
	h.channel = channels.Header{
		Channel: b[1] &^ (bitFlag | initFlag), Bit: b[1] >> 6 & 1, Init: b[1]&initFlag != 0,
		Epoch: binary.LittleEndian.Uint32(b[4:]), Stamp: binary.LittleEndian.Uint32(b[8:]),
	}
	h.from, h.to = ethertype.MAC(b[12:18]), ethertype.MAC(b[18:24])
	switch {
	case h.kind == kindAnswer && len(b) == answerHeader:
		h.offer = binary.LittleEndian.Uint32(b[24:])
		return nil, true
	case h.kind == kindQuery || h.kind == kindHas:
		return b[baseHeader:], true
	case h.kind != kindData || len(b) < dataHeader:
		return nil, false
	}
	h.fromPort, h.toPort = binary.LittleEndian.Uint16(b[24:]), binary.LittleEndian.Uint16(b[26:])
	h.fromEnd, h.toEnd = binary.LittleEndian.Uint32(b[28:]), binary.LittleEndian.Uint32(b[32:])
	h.op = b[36]
	h.length = int(binary.LittleEndian.Uint16(b[38:]))
	rest = b[dataHeader:]
	return rest, h.queue <= replies && h.op < opEnd && h.length == len(rest) && h.length <= stageSize
}

// connSize is the size in bytes of the connection number that begins every message.
const connSize = 4

// tagOf returns the tag that a message carries.
func tagOf(message []byte) (tag wire.Tag, tagged bool) {
	if len(message) < connSize+wire.BaseSize+wire.TagsSize || !wire.Kind(message[connSize]).Tagged() {
		return 0, false
	}
	return wire.Tag(binary.LittleEndian.Uint64(message[connSize+wire.BaseSize:])), true
}

// admits reports whether an endpoint with tag t accepts a message with tag m.
func admits(t, m wire.Tag) bool { return t == wire.TagAll || t != wire.TagNone && t == m }

// refusalReason returns the reason for returning a message that a card has permanently refused.
func refusalReason(k channels.AnswerKind, q queue) wire.Reason {
	switch {
	case k == channels.NackNoEndpoint:
		return wire.ReasonBadEndpoint
	case q == replies:
		return wire.ReasonReplyRejected
	}
	return wire.ReasonBadTag
}

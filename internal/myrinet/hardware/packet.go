package hardware

import (
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// What is wrong with a packet that a card has received, or is asked to send. Received
// ones are counted by identity.
var (
	ErrTruncated = errors.New("myrinet: the packet is truncated")
	ErrCRC       = errors.New("myrinet: CRC-8 does not match")
	ErrRouted    = errors.New("myrinet: the packet has come to a card before its route had ended")
)

// AppendPacket appends a packet to b: its route, which Check has taken, its type, the
// parts of its payload, and the CRC-8 of these.
func AppendPacket(b []byte, route myrinet.Route, typ uint16, payload ...[]byte) []byte {
	start := len(b)
	for _, t := range route {
		b = append(b, framing.PutTurn(int(t)))
	}
	b = binary.BigEndian.AppendUint16(b, typ&framing.MaxFabricType)
	for _, part := range payload {
		b = append(b, part...)
	}
	return append(b, framing.UpdateCRC8(0, b[start:]))
}

// PacketSize returns how long AppendPacket makes a packet.
func PacketSize(hops, payload int) int { return hops + framing.FabricLeast + payload }

// ParsePacket takes a packet apart that has come to a card. Its error is ErrTruncated,
// ErrCRC or ErrRouted, in this order. The payload is part of packet.
func ParsePacket(packet []byte) (typ uint16, payload []byte, err error) {
	switch {
	case len(packet) < framing.FabricLeast:
		return 0, nil, ErrTruncated
	case framing.UpdateCRC8(0, packet) != 0:
		return 0, nil, ErrCRC
	}
	if _, isTurn := framing.Turn(packet[0]); isTurn {
		return 0, nil, ErrRouted
	}
	end := len(packet) - framing.FabricCRCSize
	return binary.BigEndian.Uint16(packet), packet[framing.FabricTypeSize:end], nil
}

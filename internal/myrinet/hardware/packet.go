package hardware

import (
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Errors of packets that a card has received or is asked to send. The receive engine compares them
// by identity to count them.
var (
	ErrTruncated = errors.New("myrinet: the packet is truncated")
	ErrCRC       = errors.New("myrinet: CRC-8 does not match")
	ErrRouted    = errors.New("myrinet: packet arrived at a card before the end of its route")
)

// AppendPacket appends a packet to b: its route, its type, the parts of its payload, and the CRC-8
// of all of these. Route.Check must have accepted the route.
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

// PacketSize returns the length of the packet that AppendPacket builds.
func PacketSize(hops, payload int) int { return hops + framing.FabricLeast + payload }

// ParsePacket splits a packet that has arrived at a card. The error is ErrTruncated, ErrCRC or
// ErrRouted; they are checked in this order. The payload is part of packet.
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

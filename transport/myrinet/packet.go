package myrinet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// What is wrong with a packet that a card has received, or is asked to send. Received
// ones are counted by identity.
var (
	ErrTruncated = errors.New("myrinet: the packet is truncated")
	ErrCRC       = errors.New("myrinet: CRC-8 does not match")
	ErrRouted    = errors.New("myrinet: the packet has come to a card before its route had ended")
	ErrRoute     = errors.New("myrinet: no such route")
)

// Route is the turns that a packet takes, one at each switch: how many ports beyond the
// one by which it comes it leaves by, negative for before, 0 for back.
type Route []int8

// Check returns an error that wraps ErrRoute if no packet can take the route.
func (r Route) Check() error {
	if len(r) > framing.MaxHops {
		return fmt.Errorf("%w: it has %d turns, at most %d can stand in a packet", ErrRoute, len(r), framing.MaxHops)
	}
	for i, t := range r {
		if t > framing.MaxTurn || t < -framing.MaxTurn {
			return fmt.Errorf("%w: turn %d is %d, it can be %d to %d", ErrRoute, i, t, -framing.MaxTurn, framing.MaxTurn)
		}
	}
	return nil
}

// Back returns the route of an answer: the turns undone, last first.
func (r Route) Back() Route {
	back := make(Route, len(r))
	for i, t := range r {
		back[len(r)-1-i] = -t
	}
	return back
}

// AppendPacket appends a packet to b: its route, which Check has taken, its type, the
// parts of its payload, and the CRC-8 of these.
func AppendPacket(b []byte, route Route, typ uint16, payload ...[]byte) []byte {
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

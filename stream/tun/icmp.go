package tun

import (
	"encoding/binary"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Protocol numbers of IP headers.
const (
	protocolICMP  = 1
	protocolICMP6 = 58
)

// Codes of the messages that this package sends (RFC 792, RFC 4443).
const (
	codeHostUnreachable    = 1
	codeFragmentNeeded     = 4
	codeAddressUnreachable = 3
)

// ICMP messages about a packet have the packet's destination as their source. The kernel rejects
// packets from outside that have one of its own addresses as their source.

// unreachable returns an ICMP message to the sender of packet that its destination does not answer,
// or nil if no message may be sent about the packet.
func unreachable(packet []byte) []byte {
	body := &icmp.DstUnreach{Data: quote(packet)}
	return wrap(packet, &icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: codeHostUnreachable, Body: body},
		&icmp.Message{Type: ipv6.ICMPTypeDestinationUnreachable, Code: codeAddressUnreachable, Body: body})
}

// tooBig returns an ICMP message to the sender of packet with the largest permitted length.
func tooBig(packet []byte, mtu int) []byte {
	p := wrap(packet, &icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: codeFragmentNeeded, Body: &icmp.DstUnreach{Data: quote(packet)}},
		&icmp.Message{Type: ipv6.ICMPTypePacketTooBig, Body: &icmp.PacketTooBig{MTU: mtu, Data: quote(packet)}})
	if p != nil && p[0]>>4 == 4 { // the library leaves the MTU field empty (RFC 1191)
		body := p[header4:]
		binary.BigEndian.PutUint16(body[6:], uint16(mtu))
		body[2], body[3] = 0, 0
		binary.BigEndian.PutUint16(body[2:], checksum(body))
	}
	return p
}

// quote returns the part of a packet that an ICMP message repeats.
func quote(packet []byte) []byte { return packet[:min(len(packet), 512)] }

// wrap returns the ICMP message for the packet's version of IP, as a packet to its sender. It
// returns nil for ICMP errors, for fragments other than the first, and for senders without a
// unicast address.
func wrap(packet []byte, four, six *icmp.Message) []byte {
	e, ok := parse(packet, len(packet))
	if !ok || e.src.IsUnspecified() || e.src.IsMulticast() {
		return nil
	}
	if e.src.Is4() {
		if binary.BigEndian.Uint16(packet[6:])&0x1fff != 0 {
			return nil
		}
		if at := int(packet[0]&15) * 4; packet[9] == 1 && (at >= len(packet) || !query4(packet[at])) {
			return nil
		}
		body, err := four.Marshal(nil)
		if err != nil {
			return nil
		}
		p := make([]byte, header4, header4+len(body))
		p[0], p[8], p[9] = 4<<4|header4/4, 64, protocolICMP
		binary.BigEndian.PutUint16(p[2:], uint16(header4+len(body)))
		copy(p[12:], e.dst.AsSlice())
		copy(p[16:], e.src.AsSlice())
		binary.BigEndian.PutUint16(p[10:], checksum(p))
		return append(p, body...)
	}
	if packet[6] == protocolICMP6 && (len(packet) <= header6 || packet[header6] < 128) {
		return nil
	}
	body, err := six.Marshal(icmp.IPv6PseudoHeader(e.dst.AsSlice(), e.src.AsSlice()))
	if err != nil {
		return nil
	}
	p := make([]byte, header6, header6+len(body))
	p[0], p[6], p[7] = 6<<4, protocolICMP6, 64
	binary.BigEndian.PutUint16(p[4:], uint16(len(body)))
	copy(p[8:], e.dst.AsSlice())
	copy(p[24:], e.src.AsSlice())
	return append(p, body...)
}

// query4 reports whether an ICMP message of this type is a query, and so not an error.
func query4(kind byte) bool { return kind == 8 || kind == 13 || kind == 15 || kind == 17 }

// checksum returns the Internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

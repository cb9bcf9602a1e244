package tun

import (
	"encoding/binary"
	"net/netip"
)

// ends are where a packet comes from and goes to.
type ends struct{ src, dst netip.Addr }

const (
	header4 = 20
	header6 = 40
)

// parse reads the ends of an IP packet of n octets, which may be anything, of which b is the
// beginning or all, and reports whether it is whole: as long as it says, and no shorter than its
// header.
func parse(b []byte, n int) (e ends, ok bool) {
	if len(b) == 0 {
		return e, false
	}
	switch b[0] >> 4 {
	case 4:
		if len(b) < header4 {
			return e, false
		}
		head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if head < header4 || total < head || total != n {
			return e, false
		}
		e.src, e.dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	case 6:
		if len(b) < header6 || int(binary.BigEndian.Uint16(b[4:]))+header6 != n {
			return e, false
		}
		e.src, e.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return e, false
	}
	return e, true
}

// The header in front of each packet that the kernel gives and takes (struct virtio_net_hdr):
// what is left to be done to the packet.
const (
	vnetSize = 10

	vnetNeedsChecksum = 1 // flags
	vnetDataValid     = 2

	vnetNone  = 0 // kinds of segments
	vnetTCP4  = 1
	vnetTCP6  = 4
	vnetUDP   = 5
	vnetByECN = 0x80
)

// offload is such a header.
type offload struct {
	flags, kind  byte
	head         int // octets of the packet that are in one piece, its headers among them
	size         int // of a segment
	start, place int // where the checksum begins, and how far behind that it is
}

func getOffload(b []byte) offload {
	u := func(at int) int { return int(binary.NativeEndian.Uint16(b[at:])) }
	return offload{flags: b[0], kind: b[1], head: u(2), size: u(4), start: u(6), place: u(8)}
}

// fits reports whether the header can belong to a packet of n octets: the kernel is not
// handed what reaches beyond it. It is the peer's, so it may be anything.
func (o *offload) fits(n int) bool {
	if o.flags&^(vnetNeedsChecksum|vnetDataValid) != 0 || o.head > n {
		return false
	}
	if o.flags&vnetNeedsChecksum != 0 && o.start+o.place+2 > n {
		return false
	}
	switch o.kind &^ vnetByECN {
	case vnetNone:
		return o.kind == vnetNone
	case vnetTCP4, vnetTCP6, vnetUDP:
		return o.size > 0 && o.flags&vnetNeedsChecksum != 0
	}
	return false
}

// longest returns the octets of the longest packet that a packet of the kernel's becomes when
// its segments are cut. What the kernel says of the head is no more than a hint, so the
// headers are measured.
func (o *offload) longest(packet []byte) int {
	n := len(packet)
	switch o.kind &^ vnetByECN {
	case vnetTCP4, vnetTCP6:
		if at := o.start + 12; at < n {
			return min(n, o.start+int(packet[at]>>4)*4+o.size)
		}
	case vnetUDP:
		return min(n, o.start+8+o.size)
	}
	return n
}

package tun

import (
	"encoding/binary"
	"net/netip"
)

// ends are a packet's source and destination.
type ends struct{ src, dst netip.Addr }

const (
	header4 = 20
	header6 = 40
)

// parse returns the ends of an IP packet of n bytes, whose beginning is b. The packet may be
// arbitrary. parse reports whether it is complete: as long as its header states, and not shorter
// than its header.
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

// The header in front of each packet to and from the kernel (struct virtio_net_hdr). It describes
// the work that is left for the receiver.
const (
	vnetSize = 10

	vnetNeedsChecksum = 1 // flag
	vnetDataValid     = 2

	vnetNone  = 0 // kinds of segments
	vnetTCP4  = 1
	vnetTCP6  = 4
	vnetUDP   = 5
	vnetByECN = 0x80
)

// offload is the parsed header.
type offload struct {
	flags, kind  byte
	head         int // bytes of the packet that are contiguous, including its headers
	size         int // of a segment
	start, place int // start of the checksummed range, and offset of the checksum from there
}

func getOffload(b []byte) offload {
	u := func(at int) int { return int(binary.NativeEndian.Uint16(b[at:])) }
	return offload{flags: b[0], kind: b[1], head: u(2), size: u(4), start: u(6), place: u(8)}
}

// fits reports whether the header can belong to a packet of n bytes. The header comes from the peer
// and may be arbitrary; a header that reaches beyond the packet must not get to the kernel.
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

// longest returns the length in bytes of the longest packet after segmentation of a packet of the
// kernel. The kernel's value of head is only a hint, so longest measures the headers.
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

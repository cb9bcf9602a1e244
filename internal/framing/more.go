package framing

import "github.com/bobnet-go/bobnet/ethertype"

// PortBlock is the number of ports in a block. A program claims ports in blocks, which begin at
// multiples of PortBlock.
const PortBlock = 1024

// Beside reports whether a frame with header h may follow a frame with header first in one Ethernet
// frame. Both must have the same stations and EtherType, a kind that may follow, and ports of the
// same program.
func Beside(h, first *ethertype.Header) bool {
	return h.Kind.Follows() && h.Dst == first.Dst && h.Src == first.Src && h.Type == first.Type && h.SrcPort/PortBlock == first.SrcPort/PortBlock
}

// ToOne reports whether two frames, with the encoded headers a and b, go to the same program at the
// same station.
func ToOne(a, b []byte) bool {
	return ethertype.MAC(a[OffsetDst:]) == ethertype.MAC(b[OffsetDst:]) && DstPort(a)/PortBlock == DstPort(b)/PortBlock
}

// SetMore sets the flag that another frame follows, and recomputes the header's check. head is the
// whole frame.
func SetMore(head []byte) {
	head[OffsetFlags+1] |= byte(ethertype.FlagMore)
	ethertype.Seal(head)
}

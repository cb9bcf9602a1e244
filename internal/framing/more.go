package framing

import "github.com/bobnet-go/bobnet/ethertype"

// PortBlock is how many ports a block has. A program claims ports by blocks, which begin at
// multiples of it.
const PortBlock = 1024

// Beside reports whether a frame with header h may follow one with header first: both are of one
// kind of traffic, between the same two stations, and of ports that one program has.
func Beside(h, first *ethertype.Header) bool {
	return h.Kind.Follows() && h.Dst == first.Dst && h.Src == first.Src && h.Type == first.Type && h.SrcPort/PortBlock == first.SrcPort/PortBlock
}

// ToOne reports whether two frames, with the encoded headers a and b, go to ports that one program
// has at one station.
func ToOne(a, b []byte) bool {
	return ethertype.MAC(a[OffsetDst:]) == ethertype.MAC(b[OffsetDst:]) && DstPort(a)/PortBlock == DstPort(b)/PortBlock
}

// SetMore marks a frame, of which head is all, as one that another follows, and seals it again.
func SetMore(head []byte) {
	head[OffsetFlags+1] |= byte(ethertype.FlagMore)
	ethertype.Seal(head)
}

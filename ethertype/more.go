package ethertype

// PortBlock is how many ports a block has. A program claims ports by blocks, which begin at
// multiples of it.
const PortBlock = 1024

// Follows reports whether a frame of kind k may follow another one in an Ethernet frame, and be
// followed: those that a connection sends all the time.
func (k Kind) Follows() bool { return k.Sequenced() || k == KindAck }

// Next returns the frame that follows the one at the start of frame, which Parse has decoded into
// h, or nil if none does. It is a part of frame; nothing is known of it but that Ethernet may have
// padded it.
func (h *Header) Next(frame []byte) []byte {
	end := HeaderSize + int(h.Size)
	if h.Flags&FlagMore == 0 || end > len(frame) { // more of it than is at hand; see ParseBegin
		return nil
	}
	return frame[end:]
}

// Beside reports whether a frame with header h may follow one with header first: both are of one
// kind of traffic, between the same two stations, and of ports that one program has.
func (h *Header) Beside(first *Header) bool {
	return h.Kind.Follows() && h.Dst == first.Dst && h.Src == first.Src && h.Type == first.Type && h.SrcPort/PortBlock == first.SrcPort/PortBlock
}

// ToOne reports whether two frames, of which a and b are the headers as Put has encoded them, go to
// ports that one program has at one station.
func ToOne(a, b []byte) bool {
	return MAC(a[fieldDst:]) == MAC(b[fieldDst:]) && DstPort(a)/PortBlock == DstPort(b)/PortBlock
}

// SetMore marks a frame, of which head is all, as one that another follows, and seals it again.
func SetMore(head []byte) {
	head[fieldFlags+1] |= byte(FlagMore)
	Seal(head)
}

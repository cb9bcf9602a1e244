package framing

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

var fabricNames = [fabricEnd - FabricPacket]string{"packet", "credit", "break", "hello"}

// String returns the kind's name, such as "packet", or "kind-77" for an unknown kind.
func (k FabricKind) String() string {
	if k < FabricPacket || k >= fabricEnd {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return fabricNames[k-FabricPacket]
}

// Dump describes any frame of the module in one line. For a frame of the fabric this includes the
// packet; for a sealed frame, the fields that are not encrypted. Other frames go to ethertype.Dump.
func Dump(frame []byte) string {
	if isFabric(frame) {
		return dumpFabric(frame)
	}
	if kind, ok := IsSealed(frame); ok {
		return dumpSealed(frame, kind)
	}
	return ethertype.Dump(frame)
}

// String describes the frame in one line:
//
//	02:00:00:00:00:01/5 > 02:00:00:00:00:02/9 fabric packet 7 bytes 0..99 of 4100 seq 12 credit 20 tag 0x1f
func (h *FabricHeader) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s > %s fabric %s", ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, ethertype.Addr{MAC: h.Dst, Port: h.DstPort}, h.Kind)
	if h.Type != ethertype.Fabric {
		fmt.Fprintf(&b, " type %#04x", uint16(h.Type))
	}
	switch h.Kind {
	case FabricPacket:
		fmt.Fprintf(&b, " %d bytes %d..%d of %d seq %d", h.Packet, h.Offset, int64(h.Offset)+int64(h.Size)-1, h.Length, h.Seq)
	case FabricBreak:
		fmt.Fprintf(&b, " %d at %d of %d seq %d", h.Packet, h.Offset, h.Length, h.Seq)
	case FabricHello:
		fmt.Fprintf(&b, " longest %d", h.Length)
	}
	fmt.Fprintf(&b, " credit %d", h.Credit)
	if h.Tag != 0 {
		fmt.Fprintf(&b, " tag %#x", h.Tag)
	}
	return b.String()
}

// dumpFabric implements Dump for a frame of the fabric.
func dumpFabric(frame []byte) string {
	var h FabricHeader
	part, err := h.Parse(frame)
	switch {
	case err == nil && h.Kind == FabricPacket && h.Offset == 0:
		return h.String() + " " + dumpPacket(part, int(h.Length))
	case err == nil:
		return h.String()
	}
	why := strings.TrimPrefix(err.Error(), "ethertype: ")
	if len(frame) < ethertype.HeaderSize {
		return fmt.Sprintf("%s > %s fabric malformed: %s (%d bytes)", ethertype.MAC(frame[OffsetSrc:]), ethertype.MAC(frame[OffsetDst:]), why, len(frame))
	}
	h.get(frame)
	return fmt.Sprintf("%s malformed: %s (version %d, %d bytes)", &h, why, frame[OffsetVersion], len(frame))
}

// dumpPacket describes a packet of the fabric in one line. length is the packet's, and part holds
// its first bytes:
//
//	route +1 -2 type 3 payload 4096
//
// If part is the whole packet, dumpPacket also reports a CRC-8 that does not match.
func dumpPacket(part []byte, length int) string {
	var b strings.Builder
	at := 0
	for ; at < len(part); at++ {
		turn, ok := Turn(part[at])
		if !ok {
			break
		}
		if at == 0 {
			b.WriteString("route ")
		}
		fmt.Fprintf(&b, "%+d ", turn)
	}
	if len(part)-at < FabricTypeSize || length < at+FabricLeast {
		fmt.Fprintf(&b, "ends before its type (%d bytes)", length)
		return b.String()
	}
	fmt.Fprintf(&b, "type %d payload %d", binary.BigEndian.Uint16(part[at:]), length-at-FabricLeast)
	if len(part) == length && UpdateCRC8(0, part) != 0 {
		b.WriteString(" CRC-8 does not match")
	}
	return b.String()
}

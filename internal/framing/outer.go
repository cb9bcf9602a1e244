package framing

import (
	"encoding/binary"

	"github.com/mdlayher/ethernet"

	"github.com/bobnet-go/bobnet/ethertype"
)

// The outer layout: the offsets of the fields that links and the kernel's filter read. Frames of
// all EtherTypes of this module begin in this way, so the same links carry them: ethertype.Default
// with its Header, and the EtherType of the emulated fabric.
const (
	OffsetDst     = 0
	OffsetSrc     = 6
	OffsetType    = 12
	OffsetVersion = 14
	OffsetKind    = 15
	OffsetFlags   = 16
	OffsetDstPort = 18
	OffsetSrcPort = 20
	OuterSize     = 22 // size of the outer layout
)

// Outer holds the fields of the outer layout. The meaning of Kind and Flags depends on the
// EtherType.
type Outer struct {
	Dst, Src         ethertype.MAC
	Type             ethernet.EtherType
	Kind             uint8
	Flags            ethertype.Flags
	DstPort, SrcPort uint16
}

// Put writes o and the version to the first OuterSize bytes of b.
func (o *Outer) Put(b []byte) {
	b = b[:OuterSize:OuterSize]
	be := binary.BigEndian
	copy(b[OffsetDst:], o.Dst[:])
	copy(b[OffsetSrc:], o.Src[:])
	be.PutUint16(b[OffsetType:], uint16(o.Type))
	b[OffsetVersion] = ethertype.Version
	b[OffsetKind] = o.Kind
	be.PutUint16(b[OffsetFlags:], uint16(o.Flags))
	be.PutUint16(b[OffsetDstPort:], o.DstPort)
	be.PutUint16(b[OffsetSrcPort:], o.SrcPort)
}

// ParseOuter decodes the outer layout at the start of frame. It reports false if the frame is too
// short or has another version.
func ParseOuter(frame []byte) (o Outer, ok bool) {
	if len(frame) < OuterSize || frame[OffsetVersion] != ethertype.Version {
		return Outer{}, false
	}
	b := frame[:OuterSize:OuterSize]
	be := binary.BigEndian
	return Outer{
		Dst: ethertype.MAC(b[OffsetDst:]), Src: ethertype.MAC(b[OffsetSrc:]), Type: ethernet.EtherType(be.Uint16(b[OffsetType:])),
		Kind: b[OffsetKind], Flags: ethertype.Flags(be.Uint16(b[OffsetFlags:])),
		DstPort: be.Uint16(b[OffsetDstPort:]), SrcPort: be.Uint16(b[OffsetSrcPort:]),
	}, true
}

// DstPort returns the destination port of a frame, or 0 if the frame is too short.
func DstPort(frame []byte) uint16 {
	if len(frame) < OffsetDstPort+2 {
		return 0
	}
	return binary.BigEndian.Uint16(frame[OffsetDstPort:])
}

// Concerns reports whether frame has the given EtherType and this version, and goes to the station
// or to a group address. port is the frame's destination port. frame must have at least OuterSize
// bytes.
func Concerns(frame []byte, typ ethernet.EtherType, station ethertype.MAC) (port uint16, ok bool) {
	b := frame[:OuterSize:OuterSize]
	be := binary.BigEndian
	if be.Uint16(b[OffsetType:]) != uint16(typ) || b[OffsetVersion] != ethertype.Version {
		return 0, false
	}
	dst := ethertype.MAC(b)
	return be.Uint16(b[OffsetDstPort:]), dst == station || dst.IsGroup()
}

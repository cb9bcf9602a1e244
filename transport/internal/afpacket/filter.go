// Package afpacket holds what the AF_PACKET drivers, ring and packet, share:
// the kernel's filter, the choice of interface and ports, the errors and the
// gate that Close shuts.
package afpacket

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Where the fields that the filter reads start, seen from the Ethernet header
// on as a SOCK_RAW socket's filter sees a frame.
const (
	offType    = 12
	offVersion = ethertype.EthernetSize
	offDstPort = ethertype.FieldDstPort
)

// wholeFrame is what an accepting filter returns: how many bytes to keep.
const wholeFrame = 1 << 18

// Filter returns the classic BPF program that accepts the frames of typ and
// the current header version to a port in ports or to ethertype.PortAll. It
// rejects what this host sends and, should someone have made the interface
// promiscuous, what goes to other stations. Attach it before the socket is
// bound: then no other frame can slip in.
func Filter(typ ethernet.EtherType, ports transport.PortRange) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 10},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 9},
		bpf.LoadAbsolute{Off: offType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(typ), SkipTrue: 7},
		bpf.LoadAbsolute{Off: offVersion, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ethertype.Version, SkipTrue: 5},
		bpf.LoadAbsolute{Off: offDstPort, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ethertype.PortAll), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(ports.Lo), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(ports.Hi), SkipTrue: 1},
		bpf.RetConstant{Val: wholeFrame},
		bpf.RetConstant{Val: 0},
	})
}

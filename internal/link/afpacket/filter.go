// Package afpacket holds what the AF_PACKET drivers, ring and packet, share:
// the station on an interface and the ports claimed there, the kernel's filter,
// and the errors. Package shm claims ports of interfaces with it, too.
package afpacket

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// wholeFrame is the return value of an accepting filter: the number of bytes to keep.
const wholeFrame = 1 << 18

// Which selects the frames, of those for the link, that a filter accepts.
type Which uint8

const (
	AllFrames Which = iota // all but long frames
	WithLong               // also long frames
)

// Filter returns the classic BPF program that accepts frames of typ and the current header version
// to a port in ports or to ethertype.PortAll. WithLong also accepts long frames and their segments,
// on a socket that is bound to IPv6. The filter rejects frames that this host sends, and frames for
// other stations, which a promiscuous interface receives. Attach it before the socket is bound, so
// that no other frame gets in.
func Filter(typ ethernet.EtherType, ports transport.PortRange, which Which) ([]bpf.RawInstruction, error) {
	var long []bpf.Instruction // loads the port of a long frame
	if which == WithLong {
		const after = 5 // instructions of the common part and the rejecting one
		long = []bpf.Instruction{
			bpf.Jump{Skip: 6}, // to the common part, from the loading of a short frame's port
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(ethernet.EtherTypeIPv6), SkipTrue: 5 + after - 1},
			bpf.LoadAbsolute{Off: framing.LongDst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: framing.LongPrefix(typ), SkipTrue: 3 + after - 1},
			bpf.LoadAbsolute{Off: framing.LongProtocol, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: framing.LongProtocolTCP, SkipTrue: 1 + after - 1},
			bpf.LoadAbsolute{Off: framing.LongDstPort, Size: 2},
		}
	}
	extra := uint8(len(long))
	other := 7 + extra // offset of the instruction for other EtherTypes
	if extra > 0 {
		other = 4
	}
	prog := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 10 + extra},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 9 + extra},
		bpf.LoadAbsolute{Off: framing.OffsetType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(typ), SkipTrue: other},
		bpf.LoadAbsolute{Off: framing.OffsetVersion, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ethertype.Version, SkipTrue: 5 + extra},
		bpf.LoadAbsolute{Off: framing.OffsetDstPort, Size: 2},
	}
	prog = append(prog, long...)
	prog = append(prog, // the common part
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ethertype.PortAll), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(ports.Lo), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(ports.Hi), SkipTrue: 1},
		bpf.RetConstant{Val: wholeFrame},
		bpf.RetConstant{Val: 0},
	)
	return bpf.Assemble(prog)
}

// OnInterface returns prog, a result of Filter, restricted to frames of the interface with an
// index, because the holder of a socket may bind it to any interface.
func OnInterface(index int, prog []bpf.RawInstruction) ([]bpf.RawInstruction, error) {
	first, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(index), SkipTrue: uint8(len(prog) - 1)}, // to the last one, which rejects
	})
	return append(first, prog...), err
}

// Attach sets a socket's filter.
func Attach(fd int, filter []bpf.RawInstruction) error {
	prog := make([]unix.SockFilter, len(filter))
	for i, ins := range filter {
		prog[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

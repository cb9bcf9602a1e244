package framing

import "github.com/bobnet-go/bobnet/ethertype"

// A long frame is longer than the MTU of its interface. Virtual interfaces of Linux
// (veth) carry such frames whole, if the kernel takes them for TCP segments that
// some card farther on will cut: the offload that makes TCP fast there. For this
// a shim stands between the Ethernet header, which is as in every frame, and the
// Bobnet header. To the kernel, which is told so and looks no closer, it is an
// IPv4 and a TCP header:
//
//	offset  size  what
//	     0     1  0x45: IPv4, no options; no version of the Bobnet header is that
//	     1     8  0
//	     9     1  6: TCP
//	    10    22  0
//	    32     1  0x50: TCP, no options
//	    33     7  0
//
// A station on a path that does not carry long frames never gets any; so a
// connection proves its path first.

// Sizes of long frames, in bytes.
const (
	ShimSize = 40
	// LongMTU is the most that a long frame holds behind the Ethernet header, the shim
	// left out: the kernel segments nothing that is longer than 65,535 bytes in all.
	LongMTU = 65535 - ethertype.EthernetSize - ShimSize
)

// ShimVersion stands where other frames have the version of their header.
const ShimVersion = 0x45

// Where the bytes of the shim stand that are not 0.
const (
	shimProtocol, protocolTCP = 9, 6
	shimOffset, offsetTCP     = 32, 0x50
)

// PutShim writes the shim into the first ShimSize bytes of b.
func PutShim(b []byte) {
	b = b[:ShimSize:ShimSize]
	clear(b)
	b[0] = ShimVersion
	b[shimProtocol] = protocolTCP
	b[shimOffset] = offsetTCP
}

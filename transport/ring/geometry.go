package ring

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"golang.org/x/sys/unix"
)

// A slot of the receive ring, TPACKET_V2:
//
//	offset  size  what
//	     0    32  struct tpacket2_hdr; the status word is its first
//	    32    20  struct sockaddr_ll
//	    66    14  Ethernet header
//	    80        network header on a 16-byte boundary: the Bobnet header
//	   128        payload
//
// The kernel places each frame such that its network header is at netOffset, also behind VLAN tags.
const (
	slotAlign = 16 // TPACKET_ALIGNMENT
	netOffset = 80 // align(32+20+16)
	vlanSize  = 8  // two VLAN tags, which some drivers leave in the frame
)

const (
	ringBytes = 2 << 20  // what a ring takes by default: the kernel goes round and round it, so it should fit a cache
	minSlots  = 64       // whatever the MTU
	maxBytes  = 64 << 20 // most that Config.Slots may ask for, beyond minSlots
	minBlock  = 64 << 10 // the kernel allocates memory by blocks,
	maxBlock  = 1 << 20  // whose sizes are powers of two
	pageSize  = 64 << 10 // largest page of any machine: every block is a multiple
)

// geometry is the layout of a receive ring.
type geometry struct {
	frame    int // bytes of a slot
	block    int // bytes of a block; slots do not cross blocks
	blocks   int
	perBlock int // slots in a block
}

// layout computes the ring for frames of mtu+14 bytes with at least slots
// slots; 0 slots means as many as ringBytes hold. At MTU 68 that is some
// 13,000 slots, at 1500 1,300, at 9000 230 and at 65535 64.
func layout(mtu, slots int) geometry {
	g := geometry{frame: align(netOffset+mtu+vlanSize, slotAlign)}
	if slots <= 0 {
		slots = ringBytes / g.frame
	}
	slots = max(minSlots, min(slots, maxBytes/g.frame))
	// The smallest block that wastes at most an eighth of its memory.
	for g.block = minBlock; g.block < maxBlock && (g.block < g.frame || g.block%g.frame > g.block/8); {
		g.block *= 2
	}
	g.perBlock = g.block / g.frame
	g.blocks = (slots + g.perBlock - 1) / g.perBlock
	return g
}

func align(n, to int) int { return (n + to - 1) &^ (to - 1) }

// slots returns how many frames the ring holds.
func (g geometry) slots() int { return g.blocks * g.perBlock }

// size returns the ring's memory in bytes.
func (g geometry) size() int { return g.blocks * g.block }

// offset returns where slot i starts.
func (g geometry) offset(i int) int { return i/g.perBlock*g.block + i%g.perBlock*g.frame }

// capacity returns the longest frame that a slot holds, Ethernet header
// included.
func (g geometry) capacity() int { return g.frame - netOffset + ethertype.EthernetSize }

// request returns the ring in the kernel's terms.
func (g geometry) request() *unix.TpacketReq {
	return &unix.TpacketReq{
		Block_size: uint32(g.block),
		Block_nr:   uint32(g.blocks),
		Frame_size: uint32(g.frame),
		Frame_nr:   uint32(g.slots()),
	}
}

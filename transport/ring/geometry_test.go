package ring

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// checkLayout checks what the kernel demands of a ring and what we do.
func checkLayout(t *testing.T, mtu, want int, g geometry) {
	t.Helper()
	const tagged = 4
	bad := func(what string) { t.Errorf("MTU %d, %d slots asked: %s: %+v", mtu, want, what, g) }
	switch {
	case g.frame%16 != 0:
		bad("slots are not multiples of 16")
	case g.capacity() < mtu+ethertype.EthernetSize+tagged:
		bad("a frame with a VLAN tag does not fit")
	case g.block%(64<<10) != 0 || g.block&(g.block-1) != 0:
		bad("blocks are not pages, or not a power of two")
	case g.perBlock*g.frame > g.block || (g.perBlock+1)*g.frame <= g.block:
		bad("slots do not fill a block, or more than fill it")
	case g.slots() != g.perBlock*g.blocks || g.slots() < minSlots || g.slots() < want && g.slots() < maxBytes/g.frame:
		bad("too few slots")
	case g.size() > maxBytes+maxBytes/4:
		bad("too much memory")
	case g.offset(g.slots()-1)+g.frame > g.size():
		bad("the last slot ends beyond the ring")
	case (g.block-g.perBlock*g.frame)*8 > g.block:
		bad("wastes more than an eighth")
	}
	req := g.request()
	if req.Block_size/req.Frame_size*req.Block_nr != req.Frame_nr { // the kernel's own check
		bad("the kernel would refuse it")
	}
}

func TestLayout(t *testing.T) {
	for mtu := ethertype.MinMTU; mtu <= ethertype.MaxMTU; mtu++ {
		g := layout(mtu, 0)
		checkLayout(t, mtu, minSlots, g)
		if g.size() < 2<<20 || g.size() > 8<<20 {
			t.Errorf("MTU %d: %d bytes, want 2..8 MiB", mtu, g.size())
		}
		for _, slots := range []int{1, 64, 65, 1000, 1 << 30} {
			checkLayout(t, mtu, slots, layout(mtu, slots))
		}
		if t.Failed() {
			return
		}
	}
}

func TestLayoutUsualMTUs(t *testing.T) {
	for mtu, least := range map[int]int{1500: 1200, 9000: 220, 65535: 64} {
		if g := layout(mtu, 0); g.slots() < least {
			t.Errorf("MTU %d: %d slots, want at least %d", mtu, g.slots(), least)
		}
	}
}

// TestOffsets walks the slots: in order, apart, none across a block's edge.
func TestOffsets(t *testing.T) {
	for _, mtu := range []int{68, 576, 1365, 1500, 4074, 9000, 16000, 65535} {
		g := layout(mtu, 0)
		for i := range g.slots() - 1 {
			at, next := g.offset(i), g.offset(i+1)
			if next-at < g.frame || at/g.block != (at+g.frame-1)/g.block {
				t.Fatalf("MTU %d: slot %d at %d, the next at %d: %+v", mtu, i, at, next, g)
			}
		}
	}
}

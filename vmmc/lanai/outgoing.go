package lanai

import "github.com/bobnet-go/bobnet/internal/shared"

// outgoing is the outgoing page table of a process, in SRAM: for each proxy page a node and a
// physical page there, in 32 bits; 0 for none.
type outgoing struct {
	mem  []byte
	used []bool // used by the driver: pages reserved for imports
}

const (
	// outgoingPages is the number of pages that a process can import: 8 MB.
	outgoingPages = 2048
	outgoingSize  = outgoingPages * outgoingEntry
	outgoingEntry = 4

	frameBits = 24
	// maxNodes is the maximum number of nodes in a card's table, including itself.
	maxNodes = 256
	// maxMemory is the maximum number of pages that a node can export.
	maxMemory = 1 << frameBits
)

// get returns the destination of a proxy page; ok is false if it has none.
func (o *outgoing) get(page uint32) (node int, frame uint32, ok bool) {
	if page >= outgoingPages {
		return 0, 0, false
	}
	e := shared.Load(o.mem, int(page*outgoingEntry))
	return int(e >> frameBits), e & (maxMemory - 1), e != 0
}

// reserve reserves n consecutive pages for an import. ok is false if there are none.
func (o *outgoing) reserve(n uint64) (first uint32, ok bool) {
	free := uint64(0)
	for i := range uint32(outgoingPages) {
		if free++; o.used[i] {
			free = 0
		}
		if free == n {
			first = i + 1 - uint32(n)
			for k := first; k <= i; k++ {
				o.used[k] = true
			}
			return first, true
		}
	}
	return 0, false
}

// set makes pages lead to frames of a node.
func (o *outgoing) set(first uint32, node int, to run) {
	for i := range to.n {
		shared.Store(o.mem, int((first+i)*outgoingEntry), uint32(node)<<frameBits|(to.first+i))
	}
}

// close invalidates pages. They stay reserved.
func (o *outgoing) close(first, n uint32) {
	for i := first; i < first+n; i++ {
		shared.Store(o.mem, int(i*outgoingEntry), 0)
	}
}

// free frees pages.
func (o *outgoing) free(first, n uint32) {
	o.close(first, n)
	clear(o.used[first:][:n])
}

// count returns the number of reserved pages, or of valid pages in a shared table.
func (o *outgoing) count() (n int) {
	for _, used := range o.used {
		if used {
			n++
		}
	}
	for page := range uint32(len(o.mem) / outgoingEntry) {
		if _, _, leads := o.get(page); o.used == nil && leads {
			n++
		}
	}
	return n
}

// closeNode invalidates all pages that lead to a node.
func (o *outgoing) closeNode(node int) {
	for page := range uint32(outgoingPages) {
		if to, _, ok := o.get(page); ok && to == node {
			o.close(page, 1)
		}
	}
}

package lanai

import "encoding/binary"

// tlb is the software TLB of a process, in SRAM: two-way set associative, from virtual pages to
// pinned pages. An entry consists of the page's number divided by the number of sets, plus one, and
// the pin; 0 is empty. After the entries there is a byte for each set: which of the two was used
// last.
type tlb struct{ mem []byte }

const (
	tlbWays  = 2
	tlbEntry = 8
	// tlbPages is the number of pages that the TLB of a process can translate: 8 MB.
	tlbPages = 2048
	tlbSets  = tlbPages / tlbWays
	tlbSize  = tlbPages*tlbEntry + tlbSets
	// refillPages limits the pages that one interrupt adds.
	refillPages = 32
)

func (t tlb) entry(set uint64, way int) []byte {
	return t.mem[(int(set)*tlbWays+way)*tlbEntry:][:tlbEntry]
}

func (t tlb) last(set uint64) *byte { return &t.mem[tlbPages*tlbEntry+int(set)] }

// find returns the pin of a page.
func (t tlb) find(page uint64) (pin uint32, ok bool) {
	set, tag := page%tlbSets, uint32(page/tlbSets)+1
	for way := range tlbWays {
		if e := t.entry(set, way); binary.LittleEndian.Uint32(e) == tag {
			*t.last(set) = byte(way)
			return binary.LittleEndian.Uint32(e[4:]), true
		}
	}
	return 0, false
}

// insert adds a translation that is missing. It returns the pin that it has replaced.
func (t tlb) insert(page uint64, pin uint32) (gone uint32, had bool) {
	set, tag := page%tlbSets, uint32(page/tlbSets)+1
	way := 1 - int(*t.last(set))
	for w := range tlbWays {
		if binary.LittleEndian.Uint32(t.entry(set, w)) == 0 {
			way = w
			break
		}
	}
	e := t.entry(set, way)
	had, gone = binary.LittleEndian.Uint32(e) != 0, binary.LittleEndian.Uint32(e[4:])
	binary.LittleEndian.PutUint32(e, tag)
	binary.LittleEndian.PutUint32(e[4:], pin)
	*t.last(set) = byte(way)
	return gone, had
}

// Package memory manages the registered memory of a NIC: regions with their handles and
// permissions, protection tags, and pages outside the Go heap. It checks every access, of the
// program's descriptors and of peers. It does not depend on frames and connections.
//
// Nothing here is safe for concurrent use; the NIC's lock guards it.
package memory

import (
	"strconv"

	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Handle identifies a registered region of one table. It consists of a slot and the slot's
// generation, so a stale handle is detected. The zero Handle is invalid.
type Handle uint32

const (
	slotBits = 20
	slotMask = 1<<slotBits - 1
	maxGen   = 1<<(32-slotBits) - 1
)

// MaxRegions is the maximum number of regions of a table.
const MaxRegions = 1 << slotBits

// Tag is a protection tag. A descriptor or a peer can use a region only with the region's tag. Tag
// 0 always exists.
type Tag uint32

// Attributes are a region's attributes.
type Attributes struct {
	Ptag            Tag
	EnableRDMAWrite bool // peers may write to the region
	EnableRDMARead  bool // peers may read from the region
	Once            bool // the region's handle is not reused during the life of the table
}

// Segment is a data segment of a descriptor: Data lies within the region with Handle.
type Segment struct {
	Data   []byte
	Handle Handle
}

// region is a slot of the table. A free slot has a nil buf.
type region struct {
	buf    []byte
	addr   uintptr
	attr   Attributes
	gen    uint32 // counts registrations of this slot, never 0 while in use
	posted int32  // posted descriptors that refer to it
	mapped bool   // pages were allocated by Map
	locked bool
	once   bool // the slot is for regions whose handles are not reused
}

// Table holds the regions and protection tags of a NIC. The zero Table is empty.
type Table struct {
	regions []region
	free    []uint32
	once    []uint32 // free slots of regions whose handles are not reused
	inUse   int      // number of regions
	bytes   int      // total size of regions
	tags    tags
	retired map[Handle][]byte // pages of Map, after the NIC is closed
}

// Size returns the number of registered regions, and their total size in bytes.
func (t *Table) Size() (regions, bytes int) { return t.inUse, t.bytes }

func (t *Table) lookup(h Handle) *region {
	slot := uint32(h) & slotMask
	if int(slot) >= len(t.regions) {
		return nil
	}
	r := &t.regions[slot]
	if r.buf == nil || r.gen != uint32(h)>>slotBits {
		return nil
	}
	return r
}

// Check validates the segments of a descriptor for a VI with tag p and returns their total bytes.
// It records the use in each region; Release undoes that.
func (t *Table) Check(op string, segs []Segment, p Tag) (total uint64, err error) {
	for i := range segs {
		s := &segs[i]
		if len(s.Data) == 0 {
			continue
		}
		r := t.lookup(s.Handle)
		if r == nil || r.attr.Ptag != p || !r.contains(addressOf(s.Data), uint64(len(s.Data))) {
			t.Release(segs[:i])
			return 0, t.explain(op, i, s, r, p)
		}
		r.posted++
		total += uint64(len(s.Data))
	}
	return total, nil
}

// explain returns the error of Check for segment i.
func (t *Table) explain(op string, i int, s *Segment, r *region, p Tag) error {
	switch {
	case r == nil:
		return code.Error(op, code.ErrArgument, "segment %d: memory handle %v names no registered region", i, s.Handle)
	case r.attr.Ptag != p:
		return code.Error(op, code.ErrInvalidPtag, "segment %d: region %v has tag %d, the VI has tag %d", i, s.Handle, r.attr.Ptag, p)
	}
	return code.Error(op, code.ErrArgument, "segment %d: %d bytes at %#x lie outside region %v (%d bytes at %#x)",
		i, len(s.Data), addressOf(s.Data), s.Handle, len(r.buf), r.addr)
}

// Release undoes the recording of Check. It returns the total bytes of the segments, and false if
// they are not the segments that Check has seen.
func (t *Table) Release(segs []Segment) (total uint64, ok bool) {
	ok = true
	for i := range segs {
		if s := &segs[i]; len(s.Data) > 0 {
			total += uint64(len(s.Data))
			if r := t.lookup(s.Handle); r != nil && r.posted > 0 {
				r.posted--
			} else {
				ok = false
			}
		}
	}
	return total, ok
}

// Target returns the n bytes at addr that a peer wants to write through a VI with tag p, or nil if
// the region, the tag or the permissions forbid it.
func (t *Table) Target(addr uint64, n uint32, h Handle, p Tag) []byte {
	if r := t.lookup(h); r != nil && r.attr.EnableRDMAWrite {
		return r.part(addr, n, p)
	}
	return nil
}

// Source returns the n bytes at addr that a peer wants to read, like Target.
func (t *Table) Source(addr uint64, n uint32, h Handle, p Tag) []byte {
	if r := t.lookup(h); r != nil && r.attr.EnableRDMARead {
		return r.part(addr, n, p)
	}
	return nil
}

// part returns the n bytes at addr, or nil if the tag is not p or any byte lies outside of the
// region.
func (r *region) part(addr uint64, n uint32, p Tag) []byte {
	if r.attr.Ptag != p || uint64(uintptr(addr)) != addr || !r.contains(uintptr(addr), uint64(n)) {
		return nil
	}
	at := uintptr(addr) - r.addr
	return r.buf[at : at+uintptr(n) : at+uintptr(n)]
}

// contains reports whether n bytes at addr lie in r. The comparison cannot overflow, whatever a
// peer sent.
func (r *region) contains(addr uintptr, n uint64) bool {
	return addr >= r.addr && uint64(addr-r.addr) <= uint64(len(r.buf)) && n <= uint64(len(r.buf))-uint64(addr-r.addr)
}

// String returns slot and generation.
func (h Handle) String() string {
	return strconv.Itoa(int(uint32(h)&slotMask)) + "." + strconv.Itoa(int(uint32(h)>>slotBits))
}

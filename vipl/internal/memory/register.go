package memory

import (
	"math"

	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Register registers buf, which must not be empty, and returns its handle. mapped means that Map
// has allocated it, and locked that it is locked.
func (t *Table) Register(buf []byte, a Attributes, mapped, locked bool) (Handle, error) {
	const op = "register memory"
	switch {
	case !t.HasTag(a.Ptag):
		return 0, code.Error(op, code.ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case len(buf) > math.MaxInt-t.bytes:
		return 0, code.Error(op, code.ErrResource, "%d bytes on top of %d are more than %d; deregister some", len(buf), t.bytes, math.MaxInt)
	}
	free := &t.free
	if a.Once {
		free = &t.once
	}
	var slot uint32
	if last := len(*free) - 1; last >= 0 {
		slot, *free = (*free)[last], (*free)[:last]
	} else if len(t.regions) < MaxRegions {
		slot = uint32(len(t.regions))
		t.regions = append(t.regions, region{})
	} else {
		return 0, code.Error(op, code.ErrResource, "all %d regions are in use; deregister some", MaxRegions)
	}
	r := &t.regions[slot]
	gen := r.gen%maxGen + 1
	*r = region{buf: buf, addr: addressOf(buf), attr: a, gen: gen, mapped: mapped, locked: locked, once: a.Once}
	t.UseTag(a.Ptag, 1)
	t.inUse++
	t.bytes += len(buf)
	return Handle(gen<<slotBits | slot), nil
}

// MayDeregister returns an error if h is not a registered region, or if posted descriptors refer to
// it.
func (t *Table) MayDeregister(h Handle) error {
	const op = "deregister memory"
	r := t.lookup(h)
	switch {
	case r == nil:
		return code.Error(op, code.ErrArgument, "handle %v names no registered region", h)
	case r.posted > 0:
		return code.Error(op, code.ErrInvalidState, "%d posted descriptors still refer to region %v", r.posted, h)
	}
	return nil
}

// Deregister removes a region for which MayDeregister has returned nil. It unmaps pages of Map.
func (t *Table) Deregister(h Handle) {
	r, slot := t.lookup(h), uint32(h)&slotMask
	t.drop(r)
	switch {
	case !r.once:
		t.free = append(t.free, slot)
	case r.gen < maxGen: // otherwise the slot has had all its handles
		t.once = append(t.once, slot)
	}
}

// drop clears a slot, except for its generation.
func (t *Table) drop(r *region) {
	t.UseTag(r.attr.Ptag, -1)
	t.inUse--
	t.bytes -= len(r.buf)
	if r.mapped {
		Unmap(r.buf)
	}
	*r = region{gen: r.gen, once: r.once}
}

// Close removes all regions. Pages of Map read as zeros from now on. Their addresses stay reserved
// until GiveBack, because a goroutine may be about to read them.
func (t *Table) Close() {
	for i := range t.regions {
		r := &t.regions[i]
		if r.buf == nil {
			continue
		}
		if r.mapped {
			retire(r.buf)
			r.mapped = false
			if t.retired == nil {
				t.retired = map[Handle][]byte{}
			}
			t.retired[Handle(r.gen<<slotBits|uint32(i))] = r.buf
		}
		t.drop(r)
	}
}

// GiveBack unmaps a region whose addresses Close has kept reserved.
func (t *Table) GiveBack(h Handle) error {
	buf, ok := t.retired[h]
	if !ok {
		return code.ErrClosed
	}
	delete(t.retired, h)
	Unmap(buf)
	return nil
}

// SetAttributes changes a region's attributes. It fails while posted descriptors refer to the
// region, because they were checked against its tag.
func (t *Table) SetAttributes(h Handle, a Attributes) error {
	const op = "set memory attributes"
	r := t.lookup(h)
	switch {
	case r == nil:
		return code.Error(op, code.ErrArgument, "handle %v names no registered region", h)
	case !t.HasTag(a.Ptag):
		return code.Error(op, code.ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case r.posted > 0:
		return code.Error(op, code.ErrInvalidState, "%d posted descriptors refer to region %v", r.posted, h)
	}
	t.UseTag(r.attr.Ptag, -1)
	t.UseTag(a.Ptag, 1)
	r.attr = a
	return nil
}

// Info is the result of Query.
type Info struct {
	Attributes
	Addr   uint64 // virtual address of the first byte
	Len    int
	Locked bool // the pages are locked into memory
}

// Query returns a region's attributes, address and size.
func (t *Table) Query(h Handle) (Info, error) {
	r := t.lookup(h)
	if r == nil {
		return Info{}, code.Error("query memory", code.ErrArgument, "handle %v names no registered region", h)
	}
	return Info{Attributes: r.attr, Addr: uint64(r.addr), Len: len(r.buf), Locked: r.locked}, nil
}
